"""Layout of a text file of vectors: separator, lines before the rows, columns, with or without tokens.

A matrix without tokens looks like vectors whose tokens are numbers. A first line ``rows columns`` distinguishes them. A
first column with decimals belongs to the numbers. A first column of integers is ambiguous, so the user must choose.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.importers.byte_stream import BLOCK, opened
from edge_embed.importers.reading_options import Reading
from edge_embed.importers.row_tokens import header_of

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_NUMBER = re.compile(rb"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf(inity)?)", re.IGNORECASE)
_FINITE = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_SEPARATORS = (b",", b";")
_SAMPLE = 100  # lines
_NAMES = frozenset(b"token word label name term item id key index node entity".split())
_QUOTED = re.compile(rb'\s*"(?:[^"]|"")*"(?=\s*[,;])')
_WHICH = (
    "every row begins with an integer, which may be a token or a number of the row: give --tokens if it is a token, "
    "--no-tokens if it is a number"
)


@dataclass(frozen=True)
class Layout:
    """Layout of a text file.

    Attributes:
        separator: separator of fields; None for white space.
        first_line: number of the first row's line, from 1 on.
        declared: number of rows in the first line; None without one.
        num_columns: columns of a row.
        has_tokens: whether rows begin with a token.
        insists: whether the user requested tokens.
        remarks: remarks about decisions.
    """

    separator: bytes | None
    first_line: int
    declared: int | None
    num_columns: int
    has_tokens: bool
    insists: bool = False
    remarks: tuple[str, ...] = field(default=())

    def fields(self, line: bytes) -> list[bytes]:
        """Return the fields of a line."""
        return _fields(line, self.separator)


def first_lines(start: bytes, size: int) -> list[bytes]:
    """Return the whole lines of the first bytes of a file, of which at most ``size`` were read."""
    lines = start.removeprefix(BYTE_ORDER_MARK).split(b"\n")
    if len(start) == size and len(lines) > 1:
        lines.pop()  # may be incomplete
    return lines


def are_rows(lines: Sequence[bytes]) -> bool:
    """Return whether most lines have numbers after their first field; some lines may be damaged."""
    full = [line for line in lines if line.strip()]
    if 2 * sum(any(map(is_number, line.split()[1:][-2:])) for line in full) > len(full):
        return True
    return any(2 * _score(full, separator) > len(full) for separator in _SEPARATORS)


def layout_of(path: Path, start: bytes, num_lines: int, reading: Reading) -> Layout:
    """Derive the layout from the first lines of a file, and from all other lines if these are ambiguous.

    Args:
        path: the file.
        start: its first bytes, uncompressed, at most `BLOCK`.
        num_lines: number of lines of the whole file.
        reading: the user's options.

    Raises:
        BadInputError: it is ambiguous whether rows have tokens.
    """
    if b"\n" not in start and b"\r" in start.rstrip():
        raise BadInputError("its lines end in carriage returns alone (\\r), expected newlines (\\n): tr '\\r' '\\n'")
    lines = first_lines(start, BLOCK)[:_SAMPLE]
    header = header_of(lines[0])
    if header is not None and reading.has_tokens is False and header[1] == 2 and header[0] != num_lines - 1:
        header = None  # the first row of a matrix of two columns
    separator = _separator(lines[header is not None :])
    before, names = (1, None) if header is not None else _before(lines, separator)
    rows = [found for line in lines[before:] if (found := _fields(line, separator))]
    width = _usual([len(row) for row in rows])
    declared, columns = header if header is not None else (None, None)
    has_tokens, remark = _has_tokens(path, rows, columns, names, separator, before, reading)
    remarks = [remark] if remark else []
    if before and header is None:
        remarks.append(f"lines 1 to {before}: left out, not rows" if before > 1 else "line 1: column names, not a row")
    num_columns = columns if columns is not None else width - has_tokens
    insists = reading.has_tokens is True
    return Layout(separator, before + 1, declared, num_columns, has_tokens, insists, tuple(remarks))


def _has_tokens(
    path: Path,
    rows: Sequence[Sequence[bytes]],
    columns: int | None,
    names: Sequence[bytes] | None,
    separator: bytes | None,
    before: int,
    reading: Reading,
) -> tuple[bool, str]:
    """Return whether rows begin with a token, and a remark about it."""
    if reading.has_tokens is not None:
        return reading.has_tokens, ""
    without = (
        f"a matrix without tokens: each row has {len(rows[0])} numbers (--tokens reads the first as a token)"
        if rows
        else ""
    )
    firsts = [row[0] for row in rows]
    if not firsts or not all(map(is_number, firsts)):
        return True, ""
    if columns is not None:
        is_matrix = _usual([len(row) for row in rows]) == columns
        return not is_matrix, without if is_matrix else ""
    if names is not None and names[0].strip(b'" ').lower().removesuffix(b"s") in _NAMES | {b""}:
        return True, ""
    if not _all_numbers(path, separator, before):
        return True, ""
    with_decimals = sum(not first.lstrip(b"+-").isdigit() for first in firsts)
    if 2 * with_decimals <= len(firsts):
        raise BadInputError(_WHICH)
    return False, without


def _all_numbers(path: Path, separator: bytes | None, before: int) -> bool:
    """Return whether the first field of every line is a number; the first other field ends the search."""
    with opened(path) as stream:
        rest = b""
        for _ in range(before):
            stream.readline(BLOCK)
        while block := stream.read(BLOCK):
            *lines, rest = (rest + block).split(b"\n")
            if not _begin_with_numbers(lines, separator):
                return False
            rest = rest[:BLOCK]
        return _begin_with_numbers([rest], separator)


def _begin_with_numbers(lines: Iterable[bytes], separator: bytes | None) -> bool:
    fields = (line.removeprefix(BYTE_ORDER_MARK).split(separator, 1) for line in lines if line.strip())
    return all(is_number(found[0].strip(b'" \t')) for found in fields)


def _before(lines: Sequence[bytes], separator: bytes | None) -> tuple[int, Sequence[bytes] | None]:
    """Return the number of lines before the rows, and the names of columns if the last of these lines has them."""
    widths = [len(_fields(line, separator)) for line in lines if line.strip()]
    width = _usual(widths)
    at = 0
    while at + 1 < len(lines) and lines[at].startswith(b"#") and not _is_row(lines[at], separator, width):
        at += 1
    names = _fields(lines[at], separator) if at + 1 < len(lines) else []
    if separator is None and lines[at : at + 1] and lines[at].startswith(b"\t"):
        names = [b"", *names]  # an index without a name
    is_count = (
        _are_counted(names, width, separator is not None)
        and at + 1 < len(lines)
        and not _are_whole(_fields(lines[at + 1], separator))
    )
    is_named = len(names) > 1 and len(names) in (width, width - 1) and not any(map(is_number, names[1:]))
    if at + 1 < len(lines) and (is_count or is_named) and _is_row(lines[at + 1], separator, width):
        return at + 1, names
    return at, None


def _are_counted(names: Sequence[bytes], width: int, is_separated: bool) -> bool:
    """Return whether names of columns are 0, 1, 2, ..., the default names; the name of an index may come first."""
    counted = [b"%d" % at for at in range(width)]
    has_index = names[:1] == [b""] or is_separated
    return width > 1 and (list(names) == counted or (has_index and list(names[1:]) == counted[:-1]))


def _are_whole(fields: Sequence[bytes]) -> bool:
    """Return whether all fields but the first are integers: such a row may follow a row 0, 1, 2, ..."""
    return all(found.lstrip(b"+-").isdigit() for found in fields[1:])


def _is_row(line: bytes, separator: bytes | None, width: int) -> bool:
    """Return whether a line has numbers after its first field, as many as the others."""
    found = _fields(line, separator)
    return len(found) >= width and all(map(is_number, found[len(found) - width + 1 :]))


def _separator(lines: Sequence[bytes]) -> bytes | None:
    full = [line for line in lines if line.strip()]
    best = max(_SEPARATORS, key=lambda separator: _score(full, separator))
    return best if _score(full, best) > _score(full, None) else None


def _score(lines: Sequence[bytes], separator: bytes | None) -> int:
    """Return the number of lines whose last two fields, or the last of two, are numbers."""
    split = [_fields(line, separator) for line in lines]
    return sum(len(found) > 1 and all(map(is_number, found[1:][-2:])) for found in split)


def _fields(line: bytes, separator: bytes | None) -> list[bytes]:
    if separator is None:
        return line.split()
    if not line.strip():
        return []
    quoted = _QUOTED.match(line)  # a token that contains separators
    first, rest = ([quoted[0]], line[quoted.end() :].lstrip()[1:]) if quoted else ([], line)
    return [found.strip(b'" \t\r') for found in (*first, *rest.split(separator))]


def _usual(counts: Sequence[int]) -> int:
    """Return the most common number of fields; the smallest of several, as tokens may have spaces."""
    times = Counter(counts)
    most = max(times.values(), default=0)
    return min((count for count, seen in times.items() if seen == most), default=0)


def is_number(field: bytes) -> bool:
    """Return whether a field is a number, finite or not."""
    return _NUMBER.fullmatch(field) is not None


def is_finite_number(field: bytes) -> bool:
    """Return whether a field is a number that is not spelled as NaN or an infinity."""
    return _FINITE.fullmatch(field) is not None
