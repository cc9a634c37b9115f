"""A file of vectors as a stream of bytes, plain or compressed by gzip, whose size is known before it is read."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from edge_embed.errors import BadInputError

BLOCK = 4 << 20
_GZIP = b"\x1f\x8b"
_MOST_EXPANSION = 100  # numbers as text take 2 to 4 times their gzip file; what takes more is made to fill a memory


@dataclass(frozen=True)
class Extent:
    """How much a stream holds, uncompressed."""

    num_bytes: int
    num_lines: int


def begin(path: Path, size: int) -> bytes:
    """The first bytes of a stream.

    Raises:
        BadInputError: as `opened`.
    """
    with opened(path) as stream:
        return stream.read(size)


@contextmanager
def opened(path: Path) -> Iterator[IO[bytes]]:
    """Open a file, uncompressed as it is read.

    Raises:
        BadInputError: it cannot be read, or is damaged gzip.
    """
    try:
        with path.open("rb") as file:
            if file.read(2) != _GZIP:
                file.seek(0)
                yield file
                return
        with gzip.open(path) as stream:
            yield stream  # type: ignore[misc]
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInputError(f"damaged gzip file: {error}: fetch it again") from error
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}") from error


def measure(path: Path) -> Extent:
    """Read a stream once to its end, and count.

    Raises:
        BadInputError: as `opened`; or it is much larger than its gzip file.
    """
    most = max(_MOST_EXPANSION * path.stat().st_size, BLOCK)
    size = lines = 0
    last = b"\n"
    with opened(path) as stream:
        while block := stream.read(BLOCK):
            size += len(block)
            lines += block.count(b"\n")
            last = block[-1:]
            if size > most:
                raise BadInputError(f"holds more than {_MOST_EXPANSION} times its compressed size: uncompress it first")
    return Extent(size, lines + (last != b"\n"))
