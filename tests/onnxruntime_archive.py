"""ONNX Runtime for C++ as its release archives lay it out: the headers of the build, and the library of the wheel."""

import os
from pathlib import Path

import onnxruntime
import pytest


def lay_out_archive(folder: Path) -> None:
    """Make ``include`` and ``lib`` in a new folder, of links; skip the test where the headers are missing."""
    (folder / "lib").mkdir(parents=True)
    (folder / "include").symlink_to(_headers())
    (library,) = (Path(onnxruntime.__file__).parent / "capi").glob("libonnxruntime.so.*")
    for name in ("libonnxruntime.so", "libonnxruntime.so.1"):
        (folder / "lib" / name).symlink_to(library)


def _headers() -> Path:
    """Return the folder of the C++ header that the operator library was built with, or another one."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "edge-embed"
    folders = [os.environ.get("ONNXRUNTIME_INCLUDE_DIR", ""), *cache.glob("onnxruntime-headers-*")]
    folders += ["/usr/include/onnxruntime", "/usr/local/include/onnxruntime"]
    for folder in map(Path, folders):
        if (folder / "onnxruntime_cxx_api.h").is_file():
            return folder
    pytest.skip(
        "the C headers of ONNX Runtime are here, its C++ header onnxruntime_cxx_api.h is not: set "
        "ONNXRUNTIME_INCLUDE_DIR to a folder that has both"
    )
