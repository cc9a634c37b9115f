"""What targets fetch once and keep: folders of ``$XDG_CACHE_HOME/edge-embed``, complete or not there."""

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from edge_embed.targets.target import NotRunError


def cached_folder(name: str) -> Path:
    """Where a folder of the cache is, or would be."""
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "edge-embed", name)


def fetch_once(name: str, fetch: Callable[[Path], None]) -> Path:
    """A folder of the cache; if it is not there it is made beside its place, then moved there in one step.

    Two processes may fetch the same at once; the first to end wins. A kill leaves a ``.fetch-*`` folder, safe to
    delete.

    Args:
        name: of the folder, with the version of what is in it.
        fetch: fills an empty folder.

    Raises:
        NotRunError: if the cache cannot be written.
    """
    folder = cached_folder(name)
    if folder.is_dir():
        return folder
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".fetch-", dir=folder.parent))
        try:
            fetch(temporary)
            temporary.chmod(0o755)
            temporary.rename(folder)
        except OSError:
            if not folder.is_dir():  # else another process was faster
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    except OSError as error:
        reason = error.strerror or error
        raise NotRunError(f"{folder} cannot be made: {reason}; XDG_CACHE_HOME names another place") from error
    return folder
