"""Blocks of a report as Markdown, for a comment on a pull request.

Names and messages may come from files of other people. None of them acts as markup, and an ``@name`` in them notifies
nobody.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from edge_embed.report.results.validation import ModelResult, SizeResult, Status
from edge_embed.report.views.text_predictions import TEXT_COLUMNS, TEXT_TITLE
from edge_embed.report.views.validation import (
    CHANGE_COLUMNS,
    CHANGE_TITLE,
    MEMORY_COLUMNS,
    MEMORY_TITLE,
)
from edge_embed.report.views.words import plain

MARKS: Mapping[Status, str] = {"passed": "✅", "failed": "❌", "not run": "⚪"}
_NO_SPACE = "&#8203;"  # has no width: breaks `@name` and `#1`, which would notify people and link to issues

# Dollars begin formulas on GitHub, even behind a backslash; bars and backslashes act in the table before the text does.
_ENTITIES = re.compile(r"[&<>|\\$]")
_BACKSLASHED = re.compile(
    r"[`*\[~]|(?<![^\W_])_|_(?![^\W_])|:(?=//|[\w+-]+:)"  # an underscore in a word, most colons: plain letters
)

Line = tuple[Status, str, str, str]


def text(words: str) -> str:
    """Escape a text so that Markdown and HTML show it as it is.

    Most characters need that only in some places: an underscore between letters or digits starts no emphasis.
    """
    escaped = _BACKSLASHED.sub(r"\\\g<0>", _ENTITIES.sub(lambda found: f"&#{ord(found[0])};", plain(words)))
    return re.sub(r"[@#](?!\d+;)", rf"\g<0>{_NO_SPACE}", escaped)


def table(header: Sequence[str], rows: Iterable[Iterable[str]], texts: int = 1) -> str:
    """Return a table with names in the first ``texts`` columns and figures in the others; cells are Markdown."""
    return _rows(header, ["---"] * texts + ["---:"] * (len(header) - texts), rows)


def outcomes(lines: Sequence[Line]) -> list[str]:
    """Return tables of the checks that failed and of those that did not run.

    Args:
        lines: outcome, owner, name, and the outcome as a text; none of them is Markdown.
    """
    found = ([line for line in lines if line[0] == status] for status in ("failed", "not run"))
    return [_outcomes(chosen) for chosen in found if chosen]


def passed(lines: Sequence[Line]) -> list[str]:
    """Return a folded table of the checks that passed; lines as for `outcomes`."""
    found = [line for line in lines if line[0] == "passed"]
    return [f"<details><summary>{len(found)} passed</summary>\n\n{_outcomes(found)}\n\n</details>"] if found else []


def size_table(sizes: SizeResult, grown: Mapping[str, int]) -> str:
    """Return a table of bytes of the files and their parts, and of their growth if there is a baseline."""
    rows = {"on disk": sizes.on_disk, "zipped": sizes.zipped} | {part.title: part.bytes for part in sizes.parts}
    if sizes.original is not None:
        rows |= {"original, on disk": sizes.original.on_disk, "original, zipped": sizes.original.zipped}
    columns = ("size", "bytes", "since the baseline")[: 3 if grown else 2]
    cells = ([text(name), f"{now:,}", _grown(grown.get(name))] for name, now in rows.items())
    return table(columns, (row[: len(columns)] for row in cells))


def memory_table(sizes: SizeResult) -> list[str]:
    """Return the growth of the memory of a process by a session; none if it was not measured."""
    rows = [[text(growth.path), *growth.figures()] for growth in sizes.memory if growth.resident is not None]
    return [text(MEMORY_TITLE), table(MEMORY_COLUMNS, rows)] if rows else []


def change_tables(model: ModelResult) -> list[str]:
    """Return the changes of outputs and of next tokens by compression; none if they are unknown."""
    rows = ([text(change.name), *change.figures()] for change in model.changes)
    changes = [text(CHANGE_TITLE), table(CHANGE_COLUMNS, rows)] if model.changes else []
    texts = [text(TEXT_TITLE), table(TEXT_COLUMNS, [model.texts.figures()])] if model.texts else []
    return changes + texts


def footnote(facts: Mapping[str, str]) -> str:
    """Return facts such as versions in small type."""
    return f"<sub>{text(', '.join(f'{name} {value}' for name, value in facts.items()))}</sub>"


def join(blocks: Iterable[str]) -> str:
    """Return the whole text, to be written as UTF-8."""
    return "\n\n".join(blocks) + "\n"


def _grown(grown: int | None) -> str:
    return "" if grown is None else f"{grown:+,}"


def _outcomes(lines: Iterable[Line]) -> str:
    rows = ([MARKS[status], *map(text, words)] for status, *words in lines)
    return _rows([""] * 4, [":-:", "---", "---", "---"], rows)


def _rows(header: Sequence[str], alignment: Sequence[str], rows: Iterable[Iterable[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (header, alignment, *rows))
