"""Input files of a command: they must be regular, are checked before they are opened, and are read up to a limit.

A pipe or a terminal could block forever, and a device has no end. Only a file on disk can be mapped or sought in.
"""

import errno
import io
import mmap
import os
import stat
import sys
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO

from edge_embed.errors import BadInputError

_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)  # named from Python 3.13 on
_MOST_HOLE = 1 << 30


def check_regular(path: Path, expected: str, *, or_empty: bool = False) -> int:
    """Return the bytes of a regular file; a symbolic link is followed.

    Files that the system generates when they are read, in ``/proc``, report size 0; reading some of them blocks
    forever.

    Args:
        path: path of the file.
        expected: description of the expected content, for messages.
        or_empty: accept an empty file.

    Raises:
        BadInputError: there is no such file, or it is empty, a folder, a pipe, a device or a socket. The message does
            not name the path.
    """
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise BadInputError(f"no such file: expected {expected}") from error
    except (OSError, ValueError) as error:
        raise BadInputError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not stat.S_ISREG(status.st_mode):
        raise BadInputError(f"is not a regular file ({_kind(status.st_mode)}): expected {expected}")
    if not (status.st_size or or_empty):
        raise BadInputError(f"is empty: expected {expected}")
    return status.st_size


def read_whole(path: Path, most: int, expected: str) -> bytes:
    """Return the content of a file whose kind is small.

    Args:
        path: path of the file.
        most: largest number of bytes.
        expected: description of the expected content, for messages.

    Raises:
        BadInputError: as `check_regular`, or it cannot be read or is larger.
    """
    size = check_regular(path, expected, or_empty=True)
    if size > most:
        raise BadInputError(f"has more than {most:,} bytes: expected {expected}")
    try:
        with path.open("rb") as file:
            return file.read(size)  # no more: read() allocates a buffer of the requested size
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}") from error


class BoundedFile(io.BufferedReader):
    """File whose reads are limited to its size: readers of pickles request as many bytes as a pickle states."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._bytes = path.stat().st_size

    def read(self, size: int | None = -1, /) -> bytes:
        """Return the next bytes, at most the requested number."""
        return super().read(size if size is None else min(size, self._bytes))


def mapped(file: IO[bytes]) -> mmap.mmap:
    """Map a whole file privately: torch treats tensors over it as writable, and the file stays unchanged.

    The map reserves no memory for writes, because the system would refuse a file larger than the memory.

    Raises:
        BadInputError: it has a hole in place of numbers, which would take minutes to read.
        OSError: it cannot be mapped.
    """
    hole = _first_hole(file)
    if hole > _MOST_HOLE:
        raise BadInputError(f"has a hole of {hole:,} bytes, such as from an unfinished download; download it again")
    if os.name == "nt":
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    flags = mmap.MAP_PRIVATE | _NO_RESERVE
    return mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)


def _first_hole(file: IO[bytes]) -> int:
    """Return the bytes of the first range of a file without disk blocks; 0 if the system does not report it."""
    if not hasattr(os, "SEEK_HOLE"):
        return 0
    size, begin = os.fstat(file.fileno()).st_size, file.tell()
    try:
        hole = os.lseek(file.fileno(), 0, os.SEEK_HOLE)
        return os.lseek(file.fileno(), hole, os.SEEK_DATA) - hole if hole < size else 0
    except OSError as error:
        return size - hole if error.errno == errno.ENXIO else 0  # no data follow the hole
    finally:
        os.lseek(file.fileno(), begin, os.SEEK_SET)


def path_beside(folder: Path, name: str, what: str, *roots: Path) -> Path:
    """Return the path of a file that another file in a folder names; names unsafe on any system are refused.

    Args:
        folder: folder that the name is relative to.
        name: name in the file.
        what: description of the named file, for messages.
        roots: other folders that links may lead to.

    Raises:
        BadInputError: it is no name, or leads out of the folder: by ``..``, from the root, or by a link.
    """
    if not name or "\0" in name or not _can_be_name(name):
        raise BadInputError(f"{what}: got location {name!r:.80}, expected a file name")
    kinds = (PurePosixPath(name), PureWindowsPath(name))
    path = folder / name
    real = Path(os.path.realpath(path))
    within = any(real.is_relative_to(os.path.realpath(root)) for root in (folder, *roots))
    if any(kind.root or kind.drive or ".." in kind.parts for kind in kinds) or not within:
        raise BadInputError(
            f"{what} {name!r:.200}: is outside the model's folder, expected a file beside the model; "
            "use such a model only if you trust its source"
        )
    return path


def _can_be_name(name: str) -> bool:
    try:
        os.fsencode(name)
    except UnicodeEncodeError:
        return False
    return True


def _kind(mode: int) -> str:
    kinds = {
        stat.S_IFDIR: "a folder",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return kinds.get(stat.S_IFMT(mode), "another kind")
