"""Lines and cells of reports on the terminal.

Names and messages may come from a file that somebody else made: they are shown as they are, never as markup,
and without control characters.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.text import Text

if TYPE_CHECKING:  # results.py shows itself by this file
    from edge_embed.report.validation import Status

_MARKS = {"passed": ("✓", "green"), "failed": ("✗", "bold red"), "not run": ("not run", "yellow")}


def line(status: "Status", name: str, detail: str, indent: str = "") -> Text:
    """``-[✓] name: detail``."""
    return Text.assemble(f"{indent}-[", _MARKS[status], "] ", plain(f"{name}: {detail}" if detail else name))


def plain(text: str) -> str:
    """Without what could steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def cell(text: str) -> Text:
    """A text that is no markup."""
    return Text(plain(text))


def method_words(method: str, embedding_dim: int, settings: Mapping[str, Any]) -> str:
    """The method of a table; ``rows (as dpq)`` for rounded rows, which files store as DPQ of one column a group.

    Args:
        method: ``dpq``, ...
        embedding_dim: columns d.
        settings: of the packed form: ``num_groups``, ``num_row_scales``, ...
    """
    is_rounded = method == "dpq" and settings.get("num_row_scales") and settings.get("num_groups") == embedding_dim
    return "rows (as dpq)" if is_rounded else method
