"""Lines and cells of reports on the terminal.

Names and messages may come from files of other people. They are shown unchanged, never as markup, and without control
characters.
"""

from collections.abc import Sequence

from rich.text import Text

from edge_embed.report.results.interval import Interval
from edge_embed.report.results.validation import Status

Line = tuple[Status, str, str, str]  # arguments of `line`

_MARKS = {"passed": ("✓", "green"), "failed": ("✗", "bold red"), "not run": ("not run", "yellow")}


def line(status: Status, name: str, detail: str, indent: str = "") -> Text:
    """Return the line ``-[✓] name: detail``."""
    return Text.assemble(f"{indent}-[", _MARKS[status], "] ", plain(f"{name}: {detail}" if detail else name))


def folded_lines(found: Sequence[Line], verbose: bool) -> list[Text]:
    """Return the number of passed checks and lines of the others, or lines of all if ``verbose``."""
    hidden = 0 if verbose else sum(status == "passed" for status, *_ in found)
    shown = [line(*each) for each in found if not hidden or each[0] != "passed"]
    return [*([line("passed", f"{hidden} passed", "--verbose lists them")] if hidden else []), *shown]


def plain(text: str) -> str:
    """Replace characters that could control a terminal."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def interval(found: Interval | None, factor: float = 1.0) -> str:
    """Return ``median (low to high)``, each times a factor; empty without an interval."""
    if found is None:
        return ""
    return f"{factor * found.median:.2f} ({factor * found.low:.2f} to {factor * found.high:.2f})"


def cell(text: str) -> Text:
    """Return a text that is not parsed as markup."""
    return Text(plain(text))
