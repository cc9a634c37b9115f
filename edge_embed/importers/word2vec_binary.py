"""word2vec binary: a line ``rows columns``, then a token, a space and float32 numbers for each row.

The word2vec tool ends a row with a newline, gensim does not, so newlines before a token are ignored.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.importers.byte_stream import BLOCK, begin, measure, opened
from edge_embed.importers.reading_options import AS_IT_SHOWS, Reading
from edge_embed.importers.row_tokens import MAX_TOKEN_BYTES, check_size, decoded, header_of, is_text
from edge_embed.importers.word_vectors import Vectors, check_finite, unique_vectors

_NUMBER = np.dtype("<f4")
_MAX_HEADER_BYTES = 64
_SPACE = 0x20
_LARGE = 1e9  # letters read as a number are larger


def read_word2vec_binary(path: Path, reading: Reading = AS_IT_SHOWS) -> Vectors:
    """Read a binary file of vectors, plain or gzip.

    Raises:
        BadInputError: it ends too early or too late, or holds a token that is not UTF-8 or a number that is not finite;
            the message names the row, from 1 on.
    """
    header = begin(path, _MAX_HEADER_BYTES).partition(b"\n")[0] + b"\n"
    num_rows, num_columns = header_of(header) or (0, 0)
    check_size(num_rows, num_columns)
    width = num_columns * _NUMBER.itemsize
    extent = measure(path, len(header) + num_rows * (MAX_TOKEN_BYTES + 3 + width) + BLOCK)
    with opened(path) as stream:
        stream.readline(_MAX_HEADER_BYTES)
        least = num_rows * (2 + width)
        if least > extent.num_bytes - len(header):
            raise BadInputError(
                f"got {extent.num_bytes - len(header)} bytes, expected at least {least} for {num_rows} rows of "
                f"{num_columns} numbers: fetch it again"
            )
        table = np.empty((num_rows, num_columns), np.float32)
        tokens = []
        for row, stored in enumerate(_records(stream, table)):
            token = stored.lstrip(b"\n")
            _check_token(row, token, table[row - 1] if row else table[:0])
            tokens.append(decoded(token, f"row {row + 1}", reading.encoding_errors))
    check_finite(table, lambda row: f"row {row + 1} ({tokens[row]!r:.80})")
    return unique_vectors(table, tokens, path, reading)


def _records(stream: IO[bytes], table: NDArray[np.float32]) -> Iterator[bytes]:
    """Yield the token of each row, and write its numbers into the table."""
    num_rows, num_columns = table.shape
    width = num_columns * _NUMBER.itemsize
    buffer, at = b"", 0
    for row in range(num_rows):
        space = buffer.find(b" ", at)
        if space < 0 or space + 1 + width > len(buffer):
            buffer, at = buffer[at:] + stream.read(BLOCK + width), 0
            space = _end_of_token(buffer, row)
        begin = space + 1
        if begin + width > len(buffer):
            raise BadInputError(f"row {row + 1}: the file ends inside it, expected {num_rows} rows: fetch it again")
        table[row] = np.frombuffer(buffer, _NUMBER, num_columns, begin)
        yield buffer[at:space]
        at = begin + width
    if (buffer[at:] + stream.read(BLOCK)).strip(b"\n"):
        raise BadInputError(f"got more bytes after row {num_rows}, expected {num_rows} rows: fetch it again")


def _check_token(row: int, token: bytes, numbers: NDArray[np.float32]) -> None:
    """Raise for a token that is the end of the previous numbers: a row then begins elsewhere.

    Such a token is not UTF-8, and replacing or skipping it would leave the wrong numbers. A token with merely broken
    letters has no control characters, and the previous row has plausible numbers.
    """
    if is_text(token) or not (any(byte < _SPACE for byte in token) or (np.abs(numbers) > _LARGE).any()):
        return
    raise BadInputError(
        f"row {row + 1}: begins inside the numbers of row {row}: a token contains a space, or numbers are not float32: "
        "write the vectors as text, or spaces in tokens as _"
    )


def _end_of_token(buffer: bytes, row: int) -> int:
    """Return the position of the space after the token at the beginning of a buffer."""
    space = buffer.find(b" ", 0, MAX_TOKEN_BYTES + 2)
    if space < 0:
        raise BadInputError(
            f"row {row + 1}: has no token of at most {MAX_TOKEN_BYTES} bytes with a space after it: the file is "
            "damaged or not a word2vec file"
        )
    return space
