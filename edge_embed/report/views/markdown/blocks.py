"""Blocks of a report as Markdown, for a comment on a pull request.

Names and messages may come from a file that somebody else made: nothing of them is taken as markup, and nobody is
notified by an ``@name`` in them.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from edge_embed.report.results.validation import OutputChange, SizeResult, Status
from edge_embed.report.views.validation import CHANGE_COLUMNS, CHANGE_TITLE
from edge_embed.report.views.words import plain

MARKS: Mapping[Status, str] = {"passed": "✅", "failed": "❌", "not run": "⚪"}
_NO_SPACE = "&#8203;"  # of no width: breaks `@name` and `#1`, which would notify people and link to issues

Line = tuple[Status, str, str, str]


def text(words: str) -> str:
    """Shown as it is: what Markdown or HTML would act on becomes an entity."""
    escaped = re.sub(r"[&<>|`*_\[\]\\~!$]|:(?=\S)", lambda found: f"&#{ord(found[0])};", plain(words))
    return re.sub(r"[@#](?!\d+;)", rf"\g<0>{_NO_SPACE}", escaped)


def table(header: Sequence[str], rows: Iterable[Iterable[str]], texts: int = 1) -> str:
    """Names in the first columns (``texts``) and their figures, row by row; cells are Markdown."""
    return _rows(header, ["---"] * texts + ["---:"] * (len(header) - texts), rows)


def outcomes(lines: Sequence[Line]) -> list[str]:
    """Tables of what failed, and of what has not run.

    Args:
        lines: outcome, what it belongs to, name, and the outcome in words; none of them Markdown.
    """
    found = ([line for line in lines if line[0] == status] for status in ("failed", "not run"))
    return [_outcomes(chosen) for chosen in found if chosen]


def passed(lines: Sequence[Line]) -> list[str]:
    """A table of what passed, folded; lines as for `outcomes`."""
    found = [line for line in lines if line[0] == "passed"]
    return [f"<details><summary>{len(found)} passed</summary>\n\n{_outcomes(found)}\n\n</details>"] if found else []


def size_table(sizes: SizeResult, grown: Mapping[str, int]) -> str:
    """Bytes of the files and their parts, and by how many they grew, where there is a baseline."""
    rows = {"on disk": sizes.on_disk, "zipped": sizes.zipped} | {part.title: part.bytes for part in sizes.parts}
    if sizes.original is not None:
        rows |= {"original, on disk": sizes.original.on_disk, "original, zipped": sizes.original.zipped}
    columns = ("size", "bytes", "against the baseline")[: 3 if grown else 2]
    cells = ([text(name), f"{now:,}", _grown(grown.get(name))] for name, now in rows.items())
    return table(columns, (row[: len(columns)] for row in cells))


def change_table(changes: Sequence[OutputChange]) -> list[str]:
    """What compression changes in the outputs; none where that is not known."""
    rows = ([text(change.name), *change.figures()] for change in changes)
    return [text(CHANGE_TITLE), table(CHANGE_COLUMNS, rows)] if changes else []


def footnote(facts: Mapping[str, str]) -> str:
    """Versions and the like, small."""
    return f"<sub>{text(', '.join(f'{name} {value}' for name, value in facts.items()))}</sub>"


def join(blocks: Iterable[str]) -> str:
    """The whole text, UTF-8 when it is written."""
    return "\n\n".join(blocks) + "\n"


def _grown(grown: int | None) -> str:
    return "" if grown is None else f"{grown:+,}"


def _outcomes(lines: Iterable[Line]) -> str:
    rows = ([MARKS[status], *map(text, words)] for status, *words in lines)
    return _rows([""] * 4, [":-:", "---", "---", "---"], rows)


def _rows(header: Sequence[str], alignment: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, alignment, *rows))
