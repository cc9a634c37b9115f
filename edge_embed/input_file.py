"""Files that a command is given: regular ones, looked at before they are opened, and read up to a limit.

A pipe or a terminal would wait for ever, a device has no end, and what is mapped or sought in has to be a file on disk.
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
    """The bytes of a regular file; a symbolic link is followed.

    Files that the system makes up as they are read, in ``/proc``, say that they are empty; some wait for ever.

    Args:
        path: of the file.
        expected: what it should be, in words, for messages.
        or_empty: let an empty file through.

    Raises:
        BadInputError: there is no such file, or it is empty, a folder, a pipe, a device or a socket. The path is not
            named.
    """
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise BadInputError(f"no such file: expected {expected}") from error
    except (OSError, ValueError) as error:
        raise BadInputError(f"cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not stat.S_ISREG(status.st_mode):
        raise BadInputError(f"is no regular file ({_kind(status.st_mode)}): expected {expected}")
    if not (status.st_size or or_empty):
        raise BadInputError(f"is empty: expected {expected}")
    return status.st_size


def read_whole(path: Path, most: int, expected: str) -> bytes:
    """The bytes of a file that is small by its nature.

    Args:
        path: of the file.
        most: bytes that are read.
        expected: what it should be, in words, for messages.

    Raises:
        BadInputError: as `check_regular`, or it cannot be read or is larger.
    """
    size = check_regular(path, expected, or_empty=True)
    if size > most:
        raise BadInputError(f"has more than {most:,} bytes: expected {expected}")
    try:
        with path.open("rb") as file:
            return file.read(size)  # no more: a buffer is made for what is asked for
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}") from error


class BoundedFile(io.BufferedReader):
    """A file of which no more is asked for than it has: readers of pickles ask for as much as a pickle says."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._bytes = path.stat().st_size

    def read(self, size: int | None = -1, /) -> bytes:
        """The next bytes, as many as are there."""
        return super().read(size if size is None else min(size, self._bytes))


def mapped(file: IO[bytes]) -> mmap.mmap:
    """A whole file as memory, privately: tensors over it count as writable for torch, the file stays as it is.

    No memory is set aside for what might be written there, or a file larger than the memory would be refused.

    Raises:
        BadInputError: it has a hole where it should have numbers, which would be read for minutes.
        OSError: it cannot be mapped.
    """
    hole = _first_hole(file)
    if hole > _MOST_HOLE:
        raise BadInputError(f"has a hole of {hole:,} bytes, as of a download that did not end: fetch it again")
    if os.name == "nt":
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    flags = mmap.MAP_PRIVATE | _NO_RESERVE
    return mmap.mmap(file.fileno(), 0, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)


def _first_hole(file: IO[bytes]) -> int:
    """Bytes of the first range of a file that no disk holds; 0 where the system does not tell."""
    if not hasattr(os, "SEEK_HOLE"):
        return 0
    size, begin = os.fstat(file.fileno()).st_size, file.tell()
    try:
        hole = os.lseek(file.fileno(), 0, os.SEEK_HOLE)
        return os.lseek(file.fileno(), hole, os.SEEK_DATA) - hole if hole < size else 0
    except OSError as error:
        return size - hole if error.errno == errno.ENXIO else 0  # there are no data behind it
    finally:
        os.lseek(file.fileno(), begin, os.SEEK_SET)


def path_beside(folder: Path, name: str, what: str, *roots: Path) -> Path:
    """The path of a file that another one in a folder names; every system refuses what is unsafe on one.

    Args:
        folder: that the name is relative to.
        name: as the file has it.
        what: it names, for messages.
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
            f"{what} {name!r:.200}: lies outside the model's folder, expected one beside the model: "
            "do not use a model that reaches for other files unless you know who made it"
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
    return kinds.get(stat.S_IFMT(mode), "something else")
