"""Cache of files that targets fetch once: folders of ``$XDG_CACHE_HOME/edge-embed``, complete or absent.

Each folder has a list of the SHA-256 of its files. A process compares the folder with the list at first use, so that
damaged or changed files do not run. Everybody who can write there can change the list too.
"""

import functools
import hashlib
import json
import os
import shlex
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from edge_embed.targets.target import NotRunError

_HASHES = ".sha256.json"


def cached_folder(name: str) -> Path:
    """Return the path of a folder of the cache, whether it exists or not."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "edge-embed", name)


def fetch_once(name: str, fetch: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; a missing one is made beside its place, then moved there in one step.

    Two processes may fetch the same folder at once; the first to end wins. A killed process leaves a ``.fetch-*``
    folder, which is safe to delete. A folder of an earlier version, without a list of hashes, is made again.

    Args:
        name: name of the folder, with the version of its content.
        fetch: fills an empty folder.

    Raises:
        NotRunError: if the cache cannot be written, or a folder in it differs from what was fetched.
    """
    folder = cached_folder(name)
    if not (folder / _HASHES).is_file():
        _fetch(folder, fetch)
    _check(folder)
    return folder


def _fetch(folder: Path, fetch: Callable[[Path], None]) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder.parent))
        try:
            fetch(temporary)
            (temporary / _HASHES).write_text(json.dumps(_hashes(temporary), indent=1), encoding="utf-8")
            temporary.chmod(0o755)
            if folder.is_dir() and not (folder / _HASHES).is_file():  # made by an earlier version
                shutil.rmtree(folder)
            temporary.rename(folder)
        except OSError:
            if not (folder / _HASHES).is_file():  # else another process was faster
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        reason = error.strerror or error
        raise NotRunError(f"{folder} cannot be created: {reason}; set XDG_CACHE_HOME to another folder") from error


@functools.cache
def _check(folder: Path) -> None:
    """Compare a folder with its list, once in a process."""
    try:
        expected = json.loads((folder / _HASHES).read_text(encoding="utf-8"))
        found = _hashes(folder)
    except (OSError, ValueError) as error:
        raise NotRunError(f"{folder}: its list of hashes cannot be read: {error}; {_remedy(folder)}") from error
    if found != expected:
        raise NotRunError(f"{folder}: {_difference(found, expected)}: it was damaged or changed; {_remedy(folder)}")


def _difference(found: Mapping[str, str], expected: Mapping[str, str]) -> str:
    if not isinstance(expected, dict):
        return f"{_HASHES} is not a list of hashes"
    for name in sorted(found.keys() | expected.keys()):
        if name not in found:
            return f"{name} is missing"
        if name not in expected:
            return f"{name} is not among the downloaded files"
        if found[name] != expected[name]:
            return f"{name}: got SHA-256 {found[name]}, expected {expected[name]}"
    return "differs"


def _remedy(folder: Path) -> str:
    return f"delete it to download it again: rm -r {shlex.quote(str(folder))}"


def _hashes(folder: Path) -> dict[str, str]:
    """Return the SHA-256 of files, and the destination of links, by path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            found[name] = f"link to {os.readlink(path)}"
        elif path.is_file() and name != _HASHES:
            with path.open("rb") as file:
                found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found
