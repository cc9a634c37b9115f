"""Output files: written beside their place, then moved there in one step, so that they are complete or absent.

The writer works in a private directory next to the target, on the same file system, under the final file names. It
makes the file itself: with the permissions of any new file, and with correct relative names (external data). A killed
process leaves the target unchanged and one ``.edge-embed-*`` directory, which is safe to delete. If a command runs in a
child process, its parent deletes the directory. A later run does not: on file systems that containers or machines
share, another process may still write there.

Without ``force`` the move is a hard link, which fails when the name is taken: a file that appears meanwhile is never
overwritten. On file systems without hard links (FAT, some network mounts) the name is claimed with ``O_EXCL``, and our
empty claim is replaced. With ``force`` the move is a rename; a symbolic link is replaced, not followed.
"""

import errno
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from edge_embed.errors import BadInputError, OutputError

StrPath = str | os.PathLike[str]

FOLDERS = "EDGE_EMBED_FOLDERS"  # names the file that lists private folders, for a process that outlives this one

_KINDS = {
    ".pt": "a saved model",
    ".onnx": "an ONNX model",
    ".tflite": "a TFLite model",
    ".safetensors": "a file of tensors",
    ".npy": "an array",
    ".npz": "arrays",
    ".txt": "a text",
}
_REMEDIES = {
    errno.ENOSPC: "free some space or choose another path",
    errno.EDQUOT: "free some of your quota or choose another path",
    errno.EFBIG: "choose an output path on a file system that supports larger files",
    errno.EACCES: "choose a writable output path",
    errno.EPERM: "choose a writable output path",
    errno.EROFS: "choose an output path that is not mounted read-only",
    errno.ENAMETOOLONG: "choose a shorter output path",
}


@contextmanager
def new_file(path: StrPath, *, force: bool = False) -> Iterator[Path]:
    """Yield a temporary path to write; on success it becomes ``path``, on any error it is removed.

    Args:
        path: The target. Its directory must exist.
        force: Replace an existing file.

    Yields:
        A path that does not exist yet, with the target's file name, on the target's file system.

    Raises:
        BadInputError: The target exists and ``force`` is false, or is not a regular file, or has no directory.
        OutputError: The result could not be written (disk full, no permission, ...). The target is unchanged.
    """
    with new_files([path], force=force) as (temporary,):
        yield temporary


def checked_path(name: str, value: object) -> Path:
    """Return the path in an argument of a Python call.

    Raises:
        BadInputError: if it is no path.
    """
    if not isinstance(value, str | os.PathLike):
        raise BadInputError(f"{name}: got {value!r:.80}, expected the path of a file")
    return Path(value)


@contextmanager
def new_files(paths: Sequence[StrPath], *, force: bool = False) -> Iterator[list[Path]]:
    """Yield temporary paths to write; on success they become ``paths``, in that order; on an error none does.

    Put the file that refers to the others last (``[data, model]``): without it nobody reads the others. No file system
    renames two files in one step, so a kill between two moves leaves the earlier files moved.

    Args:
        paths: The targets, all in one directory, all of them written by the body.
        force: Replace existing files.

    Yields:
        One temporary path per target, in one directory, with the targets' file names.

    Raises:
        BadInputError: As for :func:`new_file`, for any of the targets.
        OutputError: As for :func:`new_file`; every target is unchanged.
    """
    targets = [Path(path).absolute() for path in paths]
    parent = targets[0].parent
    if any(target.parent != parent for target in targets):
        names = ", ".join(map(str, targets))
        raise BadInputError(f"output paths: got {names}, expected files of one directory")
    with output_errors(targets[-1], within=parent):
        for target in targets:
            check_target(target, force)
        folder = Path(tempfile.mkdtemp(prefix=".edge-embed-", dir=parent))
        _note(folder)
    try:
        temporaries = [folder / target.name for target in targets]
        with output_errors(targets[-1], within=folder):
            yield temporaries
            for temporary in temporaries:
                _sync(temporary)
        with output_errors(targets[-1], within=parent):
            _publish(temporaries, targets, force)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def new_folder(path: StrPath, mark: str, *, force: bool = False) -> Iterator[Path]:
    """Yield a temporary folder to fill; on success it becomes ``path``, on any error it is removed.

    Args:
        path: The target, a new or empty folder. Its directory must exist.
        mark: Name of a file that identifies folders of this kind.
        force: Replace an existing folder of this kind. It keeps its place until the new one is complete.

    Yields:
        An empty folder with the target's name, on the target's file system.

    Raises:
        BadInputError: As `check_new_folder`.
        OutputError: The result could not be written. The target is unchanged.
    """
    target = Path(path).absolute()
    with output_errors(target, within=target.parent):
        check_new_folder(target, mark, force)
        private = Path(tempfile.mkdtemp(prefix=".edge-embed-", dir=target.parent))
        _note(private)
    try:
        temporary = private / target.name
        with output_errors(target, within=private):
            temporary.mkdir()
            yield temporary
            for written in temporary.rglob("*"):
                if written.is_file():
                    _sync(written)
        with output_errors(target, within=target.parent):
            old = private / f"{target.name}.old"
            if target.exists() and (force or _is_empty(target)):
                target.rename(old)
            try:
                temporary.rename(target)
            except OSError:
                if old.exists():
                    old.rename(target)
                raise
    finally:
        shutil.rmtree(private, ignore_errors=True)


def check_new_folder(target: Path, mark: str, force: bool) -> None:
    """Refuse early the targets that `new_folder` would refuse.

    Raises:
        BadInputError: The target is a folder with content and ``force`` is false, or is no folder of this kind, or its
            directory does not exist.
    """
    if not target.name:
        raise BadInputError(f"{str(target)!r}: got no name, expected the path of a new folder")
    if not target.parent.is_dir():
        raise BadInputError(f"{target}: {target.parent} is not an existing directory; create it first")
    if os.path.lexists(target) and (target.is_symlink() or not target.is_dir()):
        kind = "is a link" if target.is_symlink() else "is not a folder"
        raise BadInputError(f"{target}: {kind}, expected the path of a new folder")
    if not target.exists() or _is_empty(target):
        return
    if not force:
        raise _exists(target)
    if not (target / mark).is_file():  # everything in it would be lost
        raise BadInputError(f"{target}: got a folder without {mark}, expected one to replace; choose another path")


def _is_empty(folder: Path) -> bool:
    return next(folder.iterdir(), None) is None


def _note(folder: Path) -> None:
    place = os.environ.get(FOLDERS)
    if place is not None:
        with suppress(OSError), open(place, "ab") as file:  # it may have gone
            file.write(os.fsencode(folder) + b"\0")


def remove_noted(place: Path) -> None:
    """Remove the private folders that a process has listed there and not removed itself."""
    with suppress(OSError):
        for name in place.read_bytes().split(b"\0")[:-1]:
            shutil.rmtree(os.fsdecode(name), ignore_errors=True)


def check_target(target: Path, force: bool) -> None:
    """Refuse early the targets that the move would refuse, because minutes of work may come before it.

    Raises:
        BadInputError: The target exists and ``force`` is false, is not a regular file, has no directory, or is ``-``.
    """
    if target.name == "-":
        raise BadInputError(f"{target}: got standard output, expected the path of a file")
    if not target.parent.is_dir():
        there = _nearest(target.parent)
        if not there.is_dir():
            raise BadInputError(f"{target}: {there} is a file, not an existing directory; choose another path")
        raise BadInputError(f"{target}: {target.parent} is not an existing directory; create it first")
    if target.is_dir():
        raise BadInputError(f"{target}: is a directory, expected a file name; add one to the path")
    if target.exists() and not stat.S_ISREG(target.stat().st_mode):
        raise BadInputError(f"{target}: is a device or a pipe, expected the path of a regular file")
    if os.path.lexists(target) and not force:
        raise _exists(target)


def keep_inputs(outputs: Iterable[Path | None], inputs: Iterable[StrPath | None]) -> None:
    """Refuse outputs that would replace an input of the command, its external data or its folder, even with force.

    Raises:
        BadInputError: names the output.
    """
    kept = [Path(path) for path in inputs if path is not None]
    kept += [path.with_name(path.name + ".data") for path in kept if path.name]
    for output in outputs:
        if output is not None and any(_would_replace(output, path) for path in kept):
            raise BadInputError(f"{output}: is read by this command: choose another path")


def check_output(outputs: Sequence[Path], inputs: Iterable[StrPath | None], force: bool) -> None:
    """Refuse outputs that could not be written after minutes of work.

    Args:
        outputs: the file to write, and others that may come with it.
        inputs: inputs of the command; None for absent ones.
        force: overwrite existing files.

    Raises:
        BadInputError: an output has no name, is also an input, or as for `check_target`.
        OutputError: its folder is not writable.
    """
    if not outputs[0].name:
        raise BadInputError(f"{str(outputs[0])!r}: has no file name; add one to the path")
    keep_inputs(outputs, inputs)
    parent = outputs[0].absolute().parent
    with output_errors(outputs[0], within=parent):
        check_target(outputs[0], force)
    check_folder(parent, outputs[0])


def check_folder(folder: Path, target: Path) -> None:
    """Refuse a folder in which nothing can be made, such as those of /proc; only a trial shows that.

    Args:
        folder: the folder; if it does not exist yet, its nearest existing parent is tried.
        target: the file to write there.

    Raises:
        OutputError: nothing can be made there.
    """
    there = _nearest(folder.absolute())
    with output_errors(target, within=there):
        made = Path(tempfile.mkdtemp(prefix=".edge-embed-", dir=there))
        _note(made)
        made.rmdir()


def _nearest(folder: Path) -> Path:
    """Return the folder or its nearest existing parent, which may be a file."""
    return next(path for path in (folder, *folder.parents) if os.path.lexists(path))


def check_name(output: Path, suffix: str) -> None:
    """Refuse a name with the suffix of another kind of file than the one that is written.

    Args:
        output: the file to write; suffixes of no kind that this package reads are allowed.
        suffix: suffix of the kind that is written.

    Raises:
        BadInputError: names both kinds.
    """
    named = _KINDS.get(output.suffix.lower(), _KINDS[suffix])
    if named != _KINDS[suffix]:
        written = f"the output is {_KINDS[suffix]}"
        raise BadInputError(f"{output}: has the suffix of {named}, but {written}; use the suffix {suffix}")


def check_once(outputs: Mapping[str, Path]) -> None:
    """Refuse one path for two outputs.

    Args:
        outputs: paths by option, such as ``html``.

    Raises:
        BadInputError: names the output and its option.
    """
    resolved = [os.path.realpath(path) for path in outputs.values()]
    for option, path in outputs.items():
        if resolved.count(os.path.realpath(path)) > 1:
            raise BadInputError(f"{path}: is given for two outputs; give --{option} a separate file")


def _would_replace(output: Path, read: Path) -> bool:
    """Return whether both are one path, two names of one file, or a file inside a folder that is read.

    The paths may not exist yet.
    """
    real, real_read = Path(os.path.realpath(output)), Path(os.path.realpath(read))  # also resolves circular links
    if real == real_read:
        return True
    if not (output.exists() and read.exists()):
        return False
    return output.samefile(read) or (read.is_dir() and real.is_relative_to(real_read))


def _exists(target: Path) -> BadInputError:
    return BadInputError(f"{target}: exists; choose another path, or replace it with --force / force=True")


def _sync(path: Path) -> None:
    """Write the bytes to the disk before the name: else a power cut can leave an empty file of that name."""
    with path.open("r+b") as file:
        os.fsync(file.fileno())


def _publish(temporaries: Sequence[Path], targets: Sequence[Path], force: bool) -> None:
    """Move every file to its place, or put everything back."""
    with ExitStack() as undo:
        for temporary, target in zip(temporaries, targets, strict=True):
            if force and os.path.lexists(target):
                backup = temporary.with_name(f"{temporary.name}.old")
                with suppress(OSError):  # no hard links here: no way back then, but no half file either
                    os.link(target, backup, follow_symlinks=False)
                    undo.callback(os.replace, backup, target)
                temporary.replace(target)
            else:
                _move_without_overwriting(temporary, target)
                undo.callback(os.unlink, target)
        undo.pop_all()
    with suppress(OSError):  # the files are in place and complete; this is only against a power cut
        directory = os.open(targets[0].parent, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)


def _move_without_overwriting(temporary: Path, target: Path) -> None:
    try:
        os.link(temporary, target)
    except FileExistsError:
        raise _exists(target) from None
    except OSError:  # no hard links on this file system
        _claim_and_replace(temporary, target)


def _claim_and_replace(temporary: Path, target: Path) -> None:
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    except FileExistsError:
        raise _exists(target) from None
    try:
        temporary.replace(target)
    except OSError:
        target.unlink()
        raise


@contextmanager
def output_errors(target: Path, within: Path) -> Iterator[None]:
    """Turn an ``OSError`` about our output into an ``OutputError``; one about a file elsewhere passes."""
    try:
        yield
    except OSError as error:
        name = error.filename
        if isinstance(name, str | bytes) and not Path(os.fsdecode(name)).is_relative_to(within):
            raise
        remedy = _REMEDIES.get(error.errno or 0, "choose another path")
        reason = error.strerror or str(error)
        raise OutputError(f"{target}: cannot be written: {reason}; {remedy}. No partial file is left.") from error


def as_argument(path: StrPath) -> str:
    """Return a path for a command line; one with a leading dash would be an option without ``./``."""
    return f"./{path}" if str(path).startswith("-") else str(path)
