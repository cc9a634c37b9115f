"""Lines and cells of reports on the terminal.

Names and messages may come from a file that somebody else made: they are shown as they are, never as markup,
and without control characters.
"""

from rich.text import Text

from edge_embed.report.results.validation import Status

_MARKS = {"passed": ("✓", "green"), "failed": ("✗", "bold red"), "not run": ("not run", "yellow")}


def line(status: Status, name: str, detail: str, indent: str = "") -> Text:
    """``-[✓] name: detail``."""
    return Text.assemble(f"{indent}-[", _MARKS[status], "] ", plain(f"{name}: {detail}" if detail else name))


def plain(text: str) -> str:
    """Without what could steer a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def cell(text: str) -> Text:
    """A text that is no markup."""
    return Text(plain(text))
