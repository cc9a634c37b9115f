"""word2vec text, fastText ``.vec`` and GloVe: a line for each token, which its numbers follow.

word2vec and fastText begin with a line of their own, ``rows columns``; GloVe does not. Tokens of GloVe may have spaces,
so the numbers are the last fields of a line.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.importers.rows import MAX_COLUMNS, MAX_TOKEN_BYTES, check_size, decoded, header_of
from edge_embed.importers.stream import BLOCK, begin, measure, opened
from edge_embed.importers.vectors import Vectors, check_finite, unique_vectors

_MOST_DIGITS = 32  # of a number in a line, with its space
_MAX_LINE_BYTES = MAX_TOKEN_BYTES + _MOST_DIGITS * MAX_COLUMNS
_NUMBER = re.compile(rb"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf(inity)?)", re.IGNORECASE)
_FINITE = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_FIRST_LINES = 100

Rows = tuple[list[bytes], NDArray[np.float32]]


def read_word2vec_text(path: Path) -> Vectors:
    """Read a text file of vectors, plain or gzip.

    Raises:
        BadInputError: a line has no token, not as many numbers as the others, or something that is no finite number;
            or there are not as many lines as the first one says. The line is named.
    """
    extent = measure(path)
    declared, num_columns = _sizes(begin(path, BLOCK))
    check_size(extent.num_lines if declared is None else declared, num_columns)
    # The shortest row is a token and numbers of one digit: more rows than fit are an error of some line.
    most = min(extent.num_lines, (extent.num_bytes + 1) // (2 + 2 * num_columns))
    if declared is not None and declared > most:
        raise BadInputError(f"line 1: says {declared} rows of {num_columns} numbers, the file has room for {most}")
    table = np.empty((most, num_columns), np.float32)
    tokens: list[str] = []
    for first, lines in _blocks(path, has_header=declared is not None):
        rows = _parsed(lines, first, num_columns)
        tokens += [decoded(token, f"line {first + at}") for at, token in enumerate(rows[0])]
        table[len(tokens) - len(lines) : len(tokens)] = rows[1]
    if declared not in (None, len(tokens)):
        raise BadInputError(f"line 1: says {declared} rows, the file has {len(tokens)}: fetch it again")
    return unique_vectors(table[: len(tokens)], tokens, path)


def is_number(field: bytes) -> bool:
    """Whether a field is a number, finite or not."""
    return _NUMBER.fullmatch(field) is not None


def _sizes(start: bytes) -> tuple[int | None, int]:
    """Rows, if the first line says so, and columns."""
    lines = start.split(b"\n")
    if len(start) == BLOCK and len(lines) > 1:
        lines.pop()  # it may be cut
    lines = lines[:_FIRST_LINES]
    header = header_of(lines[0])
    if header is not None:
        return header
    counts = Counter(len(line.split()) for line in lines if line.strip())
    usual = max(counts.values(), default=0)
    return None, min((fields for fields, times in counts.items() if times == usual), default=0) - 1


def _blocks(path: Path, has_header: bool) -> Iterator[tuple[int, list[bytes]]]:
    """Number of the first line, and lines, of one block after the other; empty lines at the end are left out."""
    number, blank = 1, 0
    with opened(path) as stream:
        if has_header:
            stream.readline(_MAX_LINE_BYTES)
            number = 2
        while lines := _lines(stream, number + blank):
            last = len(lines)
            while last and not lines[last - 1].strip():
                last -= 1
            if last and blank:
                raise BadInputError(f"line {number}: is empty, expected a token and its numbers")
            if last:
                yield number, lines[:last]
            number, blank = number + last, blank + len(lines) - last


def _lines(stream: IO[bytes], number: int) -> list[bytes]:
    """The next whole lines."""
    block = stream.read(BLOCK)
    rest = stream.readline(_MAX_LINE_BYTES) if block[-1:] not in (b"", b"\n") else b""
    lines = (block + rest).split(b"\n")
    if len(rest) == _MAX_LINE_BYTES:
        raise BadInputError(f"line {number + len(lines) - 1}: is longer than {_MAX_LINE_BYTES} bytes")
    return lines if lines[-1] else lines[:-1]


def _parsed(lines: Sequence[bytes], first: int, num_columns: int) -> Rows:
    """Tokens and numbers of lines."""
    try:
        tokens, table = _rows(lines, num_columns)
    except ValueError as error:
        at, reason = _culprit(lines, num_columns)
        raise BadInputError(f"line {first + at}: {reason}") from error
    check_finite(table, lambda row: f"line {first + row} ({tokens[row]!r:.80})")
    return tokens, table


def _rows(lines: Sequence[bytes], num_columns: int) -> Rows:
    split = [_split(line, num_columns) for line in lines]
    table = np.loadtxt([numbers for _, numbers in split], np.float32, comments=None, ndmin=2)
    if table.shape != (len(lines), num_columns):
        raise ValueError(f"expected {num_columns} numbers")
    return [token for token, _ in split], table


def _split(line: bytes, num_columns: int) -> tuple[bytes, bytes]:
    """The token and the numbers of a line; a ``ValueError`` says how many there are if they are too few or too many."""
    line = line.rstrip()
    if line.count(b" ") == num_columns:
        token, _, numbers = line.partition(b" ")
        return token, numbers
    token, *fields = line.rsplit(None, num_columns) or [b""]
    one_more = b" " in token and _FINITE.fullmatch(token.rpartition(b" ")[2])
    if len(fields) != num_columns or one_more:
        raise ValueError(f"got {len(line.split()) - 1} numbers, expected {num_columns}")
    return token, b" ".join(fields)


def _culprit(lines: Sequence[bytes], num_columns: int) -> tuple[int, str]:
    """The first line that cannot be read, and why."""
    for at, line in enumerate(lines):
        try:
            _rows([line], num_columns)
        except ValueError as error:
            fields = line.split()
            wrong = [field for field in fields[-num_columns:] if not is_number(field)]
            if not fields:
                return at, f"is empty, expected a token and {num_columns} numbers"
            return at, f"got {wrong[0]!r:.80}, expected a number" if wrong and len(fields) > num_columns else str(error)
    return 0, f"expected a token and {num_columns} numbers in every line from here on"
