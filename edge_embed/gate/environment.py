"""What a check ran with: figures of two reports compare where these are equal."""

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
    """Versions, processor, and the operator library by its hash."""
    versions = {name: metadata.version(name) for name in _DISTRIBUTIONS}
    return {
        "python": platform.python_version(),
        "zlib": zlib.ZLIB_RUNTIME_VERSION,
        **versions,
        **machine(threads=1),
        "library": "none" if missing_library() else library_hash(get_library_path()),
    }


def library_hash(path: Path) -> str:
    """SHA-256 of an operator library, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
