"""Environment of a check; figures of two reports are comparable if their environments are equal."""

import hashlib
import platform
import zlib
from importlib import metadata
from pathlib import Path

from edge_embed.runtime.library import get_library_path
from edge_embed.validation.machine import machine
from edge_embed.validation.paths import missing_library

_DISTRIBUTIONS = ("edge-embed", "numpy", "onnx", "torch")


def environment() -> dict[str, str]:
    """Return versions, processor, and the hash of the operator library."""
    versions = {name: metadata.version(name) for name in _DISTRIBUTIONS}
    return {
        "python": platform.python_version(),
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
        **versions,
        **machine(threads=1),
        "library": "none" if missing_library() else library_hash(get_library_path()),
    }


def library_hash(path: Path) -> str:
    """Return the SHA-256 of an operator library, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
