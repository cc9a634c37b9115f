"""Files that a command is given: regular ones, looked at before they are opened, and read up to a limit.

A pipe or a terminal would wait for ever, a device has no end, and what is mapped or sought in has to be a file on disk.
"""

import io
import os
import stat
from pathlib import Path, PurePosixPath, PureWindowsPath

from edge_embed.errors import BadInputError


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
