"""Builds of packages by CMake, in the cache of the user."""

import tempfile
from pathlib import Path

import edge_embed
from edge_embed.packages.platforms import Build
from edge_embed.packages.toolchain import Toolchain, ninja_program
from edge_embed.targets.build import run_cmake, source_folder, source_key
from edge_embed.targets.cache import fetch_once


def install_tree(build: Build, toolchain: Toolchain, time_limit: float) -> Path:
    """Return the cached folder with ``include`` and ``lib`` of a build; make it if it is missing.

    Args:
        build: the processor.
        toolchain: its compiler.
        time_limit: seconds for each step.

    Raises:
        NotRunError: if it cannot be built or stored.
    """

    def fill(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            make_tree(build, toolchain, Path(temporary), folder, time_limit)

    key = source_key((toolchain.name, *toolchain.settings))  # the place of a compiler is in its settings
    return fetch_once(f"package-{build.preset}-{key}", fill)


def make_tree(build: Build, toolchain: Toolchain, work: Path, folder: Path, time_limit: float) -> None:
    """Build in ``work`` and install into ``folder``."""
    product = f"{build.preset} with {toolchain.name}"
    generator = ["-G", "Ninja"] if ninja_program() else []
    # A newer compiler may have more warnings.
    configure = ["--preset", build.preset, "-S", str(source_folder()), "-B", str(work), "--compile-no-warning-as-error"]
    version = f"-DSKBUILD_PROJECT_VERSION={edge_embed.__version__}"
    run_cmake([*configure, *generator, version, *toolchain.settings], time_limit, product)
    run_cmake(["--build", str(work), "--parallel"], time_limit, product)
    run_cmake(["--install", str(work), "--prefix", str(folder), "--component", "package"], time_limit, product)
