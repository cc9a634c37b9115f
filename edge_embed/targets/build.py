"""Build of the runner and the operator library for other processors and systems, from the sources in this package."""

import functools
import hashlib
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import edge_embed
from edge_embed.report.results.targets import Problem
from edge_embed.targets.cache import fetch_once
from edge_embed.targets.process import finish_program
from edge_embed.targets.target import NotRunError

RUNNER, LIBRARY = "edge_embed_runner", "libedge_embed_ops.so"
_LONGEST = 500


def build_lacks() -> list[Problem]:
    """List the missing tools that every build needs, beside its compiler."""
    found = []
    if cmake_program() is None:
        found.append(Problem("cmake is missing", "apt-get install cmake, or python -m pip install cmake"))
    if shutil.which("make") is None:
        found.append(Problem("make is missing", "apt-get install make"))
    return found


def build_runner(name: str, settings: Sequence[str], time_limit: float) -> Path:
    """Return the cached folder with `RUNNER` and `LIBRARY` of this package version; build them if they are missing.

    Args:
        name: name of the processor and system, such as ``linux-arm64``.
        settings: settings of CMake: compiler and system.
        time_limit: seconds for each of the two steps.

    Raises:
        NotRunError: if they cannot be built or stored.
    """

    def fill(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            version = f"-DSKBUILD_PROJECT_VERSION={edge_embed.__version__}"
            options = ["-DCMAKE_BUILD_TYPE=Release", "-DEDGE_EMBED_RUNNER=ON", "-DEDGE_EMBED_TESTS=OFF", version]
            # A newer compiler may have more warnings.
            sources = ["-S", str(source_folder()), "-B", temporary, "--compile-no-warning-as-error"]
            run_cmake([*sources, *options, *settings], time_limit, "the runner")
            targets = ["--target", "edge_embed_runner", "edge_embed_ops", "--parallel", str(os.cpu_count() or 1)]
            run_cmake(["--build", temporary, *targets], time_limit, "the runner")
            for file in (RUNNER, LIBRARY):
                shutil.copy2(Path(temporary) / file, folder)

    return fetch_once(f"{name}-{source_key(tuple(settings))}", fill)


def run_cmake(arguments: Sequence[str], time_limit: float, product: str) -> None:
    """Run CMake.

    Args:
        arguments: its arguments.
        time_limit: seconds.
        product: name of the result for messages.

    Raises:
        NotRunError: if it fails.
    """
    done = finish_program([cmake_program() or "cmake", *arguments], time_limit, what="cmake")
    if done.status != 0:
        reason = " ".join(done.complaints.split())[:_LONGEST] if done.status else done.ending
        raise NotRunError(f"{product} cannot be built: cmake: {reason}")


def cmake_program() -> str | None:
    """Return the program of the Python package cmake, or the system's."""
    return shutil.which("cmake", path=str(Path(sys.executable).parent)) or shutil.which("cmake")


def source_folder() -> Path:
    """Return the folder of the sources: inside the package in a wheel, beside it in a checkout."""
    package = Path(edge_embed.__file__).parent
    inside = package / "runtime_ops"
    return inside if inside.is_dir() else package.parent / "runtime_ops"


@functools.cache
def source_key(settings: tuple[str, ...]) -> str:
    """Return a key that changes with the version of the package, its sources and the settings."""
    digest = hashlib.sha256("\0".join((edge_embed.__version__, *settings)).encode())
    folder = source_folder()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder)
        if path.is_file() and name.parts[0] != "tests":
            digest.update(f"\0{name.as_posix()}\0".encode() + path.read_bytes())
    return digest.hexdigest()[:16]
