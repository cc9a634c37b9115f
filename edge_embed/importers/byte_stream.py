"""Byte streams of vector files, plain or gzip, whose size is measured before they are parsed."""

import gzip
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from edge_embed.errors import BadInputError

BLOCK = 4 << 20
_HOLE = bytes(1 << 12)
_GZIP = b"\x1f\x8b"
_MOST_PADDING = 1 << 16  # trailing zeros of gzip, as tapes add them; Python's gzip reads them one by one
_MOST_EXPANSION = 100  # numbers as text expand 2 to 4 times; a larger factor is an attack on the memory


@dataclass(frozen=True)
class Extent:
    """Uncompressed size of a stream."""

    num_bytes: int
    num_lines: int


def begin(path: Path, size: int) -> bytes:
    """Return the first bytes of a stream.

    Raises:
        BadInputError: as `opened`.
    """
    with opened(path) as stream:
        return stream.read(size)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file for uncompressed reading.

    Raises:
        BadInputError: it cannot be read, or is damaged gzip.
    """
    try:
        with path.open("rb") as file:
            if file.read(2) != _GZIP:
                file.seek(0)
                yield file
                return
            _check_end(file)
        with gzip.open(path) as stream:
            yield stream  # type: ignore[misc]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInputError(f"damaged gzip file: {error}: fetch it again") from error
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}") from error


def _check_end(file: IO[bytes]) -> None:
    """Raise for gzip that ends in a hole, which would be read to its end."""
    if file.seek(0, os.SEEK_END) > _MOST_PADDING:
        file.seek(-_MOST_PADDING, os.SEEK_END)
        if not any(file.read()):
            raise BadInputError("damaged gzip file: ends in zeros: fetch it again")


def measure(path: Path, most_bytes: int | None = None) -> Extent:
    """Read a stream to its end and count its bytes and lines. For a plain binary file only the size is read.

    Args:
        path: the file.
        most_bytes: maximum size by the file's own header; None for a text, which has no such maximum. A text must not
            have a long run of zeros, as a file with a hole has.

    Raises:
        BadInputError: as `opened`; or the stream is much larger than its gzip file, or larger than the maximum.
    """
    most = max(_MOST_EXPANSION * path.stat().st_size, BLOCK)
    size = lines = 0
    last = b"\n"
    with opened(path) as stream:
        if most_bytes is not None and not isinstance(stream, gzip.GzipFile):
            return _checked(Extent(path.stat().st_size, 0), most_bytes)
        while block := stream.read(BLOCK):
            size += len(block)
            lines += block.count(b"\n")
            last = block[-1:]
            if size > most:
                raise BadInputError(f"content exceeds {_MOST_EXPANSION} times its compressed size: uncompress it first")
            if most_bytes is not None:
                _checked(Extent(size, lines), most_bytes)
            if most_bytes is None and _HOLE in block:
                raise BadInputError(f"line {lines + 1}: got zeros, expected text: fetch it again")
    return Extent(size, lines + (last != b"\n"))


def _checked(extent: Extent, most_bytes: int) -> Extent:
    if extent.num_bytes > most_bytes:
        raise BadInputError(f"content exceeds {most_bytes:,} bytes, the maximum for its rows: fetch it again")
    return extent
