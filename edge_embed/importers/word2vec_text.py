"""word2vec text, fastText ``.vec``, GloVe, and matrices as text: a line for each row, with or without a token.

word2vec and fastText begin with a line ``rows columns``; GloVe does not. Tokens of GloVe may contain spaces, so the
numbers are the last fields of a line.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.importers.byte_stream import BLOCK, begin, measure, opened
from edge_embed.importers.reading_options import AS_IT_SHOWS, Reading
from edge_embed.importers.row_tokens import MAX_COLUMNS, MAX_TOKEN_BYTES, check_size, decoded
from edge_embed.importers.text_layout import BYTE_ORDER_MARK, Layout, is_finite_number, is_number, layout_of
from edge_embed.importers.word_vectors import Vectors, check_finite, plain_vectors, unique_vectors

_MOST_DIGITS = 32  # of a number in a line, with its space
_MAX_LINE_BYTES = MAX_TOKEN_BYTES + _MOST_DIGITS * MAX_COLUMNS
_AGAIN = "fetch it again, or remove the line if all rows are present"

Rows = tuple[list[bytes], NDArray[np.float32]]


def read_word2vec_text(path: Path, reading: Reading = AS_IT_SHOWS) -> Vectors:
    """Read a text file of vectors, plain or gzip.

    Raises:
        BadInputError: a line has no token, another number of numbers, or a field that is not a finite number; the
            number of lines differs from the first line; or it is ambiguous whether rows begin with a token. The message
            names the line.
    """
    extent = measure(path)
    layout = layout_of(path, begin(path, BLOCK), extent.num_lines, reading)
    declared, num_columns = layout.declared, layout.num_columns
    check_size(extent.num_lines if declared is None else declared, num_columns)
    # The shortest row has a token and numbers of one digit. If rows do not fit, some line has an error.
    shortest = 2 * num_columns + 2 * layout.has_tokens
    most = min(extent.num_lines, (extent.num_bytes + 1) // shortest)
    if declared is not None and declared > most:
        raise BadInputError(
            f"line 1: declares {declared} rows of {num_columns} numbers, the file has room for {most}: {_AGAIN}"
        )
    table = np.empty((most, num_columns), np.float32)
    tokens: list[str | None] = []
    num_rows = 0
    for first, lines in _blocks(path, layout.first_line):
        found, numbers = _parsed(lines, first, layout)
        tokens += [decoded(token, f"line {first + at}", reading.encoding_errors) for at, token in enumerate(found)]
        table[num_rows : num_rows + len(lines)] = numbers
        num_rows += len(lines)
    if declared not in (None, num_rows):
        raise BadInputError(f"line 1: declares {declared} rows, the file has {num_rows}: {_AGAIN}")
    table = table[:num_rows]
    if not layout.has_tokens:
        return plain_vectors(table, path, layout.remarks)
    return unique_vectors(table, tokens, path, reading, layout.remarks)


def _blocks(path: Path, first_line: int) -> Iterator[tuple[int, list[bytes]]]:
    """Yield number of the first line, and lines, of consecutive blocks; empty lines at the end are left out."""
    number, blank = first_line, 0
    with opened(path) as stream:
        for _ in range(first_line - 1):
            stream.readline(_MAX_LINE_BYTES)
        while lines := _lines(stream, number + blank):
            if number + blank == 1:
                lines[0] = lines[0].removeprefix(BYTE_ORDER_MARK)
            last = len(lines)
            while last and not lines[last - 1].strip():
                last -= 1
            if last and blank:
                raise BadInputError(f"line {number}: is empty, expected a token and its numbers")
            if last:
                yield number, lines[:last]
            number, blank = number + last, blank + len(lines) - last


def _lines(stream: IO[bytes], number: int) -> list[bytes]:
    """Return the next whole lines."""
    block = stream.read(BLOCK)
    rest = stream.readline(_MAX_LINE_BYTES) if block[-1:] not in (b"", b"\n") else b""
    lines = (block + rest).split(b"\n")
    if len(rest) == _MAX_LINE_BYTES:
        raise BadInputError(f"line {number + len(lines) - 1}: exceeds {_MAX_LINE_BYTES} bytes")
    return lines if lines[-1] else lines[:-1]


def _parsed(lines: Sequence[bytes], first: int, layout: Layout) -> Rows:
    """Return the tokens and numbers of lines."""
    try:
        tokens, table = _rows(lines, layout)
    except ValueError as error:
        at, reason = _culprit(lines, layout)
        raise BadInputError(f"line {first + at}: {reason}") from error
    check_finite(table, lambda row: f"line {first + row}" + (f" ({tokens[row]!r:.80})" if tokens else ""))
    return tokens, table


def _rows(lines: Sequence[bytes], layout: Layout) -> Rows:
    split = [_split(line, layout) for line in lines]
    table = np.loadtxt([numbers for _, numbers in split], np.float32, comments=None, ndmin=2)
    if table.shape != (len(lines), layout.num_columns):
        raise ValueError(f"expected {layout.num_columns} numbers")
    return [token for token, _ in split if token is not None], table


def _split(line: bytes, layout: Layout) -> tuple[bytes | None, bytes]:
    """Return the token and the numbers of a line; a ``ValueError`` names a wrong number of numbers."""
    line, num_columns = line.rstrip(), layout.num_columns
    if not layout.has_tokens:
        fields = layout.fields(line)
        if len(fields) != num_columns:
            raise ValueError(f"got {len(fields)} numbers, expected {num_columns}")
        return None, b" ".join(fields)
    if layout.separator is not None:
        return _separated(line, layout.separator, num_columns)
    if line.count(b" ") == num_columns:
        token, _, numbers = line.partition(b" ")
        return token, numbers
    token, *fields = line.rsplit(None, num_columns) or [b""]
    if len(fields) != num_columns or (not layout.insists and _has_one_more(token, fields)):
        raise ValueError(f"got {len(line.split()) - 1} numbers, expected {num_columns}")
    return token, b" ".join(fields)


def _separated(line: bytes, separator: bytes, num_columns: int) -> tuple[bytes, bytes]:
    """Return token and numbers of comma-separated values; the token may be quoted and contain separators."""
    token, *fields = line.rsplit(separator, num_columns)
    token = token.strip()
    if token[:1] == token[-1:] == b'"' and len(token) > 1:
        token = token[1:-1].replace(b'""', b'"')
    elif separator in token or len(fields) != num_columns:
        raise ValueError(f"got {line.count(separator)} numbers, expected {num_columns}")
    return token, b" ".join(found.strip(b'" \t') for found in fields)


def _has_one_more(token: bytes, fields: Sequence[bytes]) -> bool:
    """Return whether an apparent token of several words ends in a number of the row.

    An integer belongs to the token if no number of the row is an integer.
    """
    last = token.rpartition(b" ")[2] if b" " in token else b""
    return is_finite_number(last) and (not last.isdigit() or any(found.isdigit() for found in fields))


def _culprit(lines: Sequence[bytes], layout: Layout) -> tuple[int, str]:
    """Return the first line that cannot be read, and the reason."""
    num_columns = layout.num_columns
    what = f"{'a token and ' if layout.has_tokens else ''}{num_columns} numbers"
    for at, line in enumerate(lines):
        try:
            _rows([line], layout)
        except ValueError as error:
            fields = layout.fields(line)
            wrong = [found for found in fields[-num_columns:] if not is_number(found)]
            if not fields:
                return at, f"is empty, expected {what}"
            whole = len(fields) >= num_columns + layout.has_tokens
            return at, f"got {wrong[0]!r:.80}, expected a number" if wrong and whole else str(error)
    return 0, f"expected {what} in every line from here on"
