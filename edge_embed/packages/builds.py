"""Builds of packages by CMake, in the cache of the user."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

import edge_embed
from edge_embed.packages.platforms import Build
from edge_embed.packages.toolchain import Toolchain, ninja_program
from edge_embed.targets.build import run_cmake, source_folder, source_key
from edge_embed.targets.cache import fetch_once


@dataclass(frozen=True)
class Product:
    """Files that CMake builds and installs.

    Attributes:
        name: name of their folders in the cache.
        component: component of the install rules.
        settings: settings of CMake beside those of the preset.
    """

    name: str
    component: str
    settings: tuple[str, ...] = ()


PACKAGE = Product("package", "package")


def install_tree(build: Build, toolchain: Toolchain, time_limit: float, product: Product = PACKAGE) -> Path:
    """Return the cached folder with the installed files of a build; make it if it is missing.

    Args:
        build: the processor.
        toolchain: its compiler.
        time_limit: seconds for each step.
        product: files that are built; by default ``include`` and ``lib`` of a package.

    Raises:
        NotRunError: if it cannot be built or stored.
    """

    def fill(folder: Path) -> None:
        with tempfile.TemporaryDirectory() as temporary:
            make_tree(build, toolchain, Path(temporary), folder, time_limit, product)

    # The place of a compiler is in its settings.
    key = source_key((toolchain.name, *toolchain.settings, *product.settings))
    return fetch_once(f"{product.name}-{build.preset}-{key}", fill)


def make_tree(
    build: Build, toolchain: Toolchain, work: Path, folder: Path, time_limit: float, product: Product = PACKAGE
) -> None:
    """Build in ``work`` and install into ``folder``."""
    what = f"{build.preset} with {toolchain.name}"
    generator = ["-G", "Ninja"] if ninja_program() else []
    # A newer compiler may have more warnings.
    configure = ["--preset", build.preset, "-S", str(source_folder()), "-B", str(work), "--compile-no-warning-as-error"]
    version = f"-DSKBUILD_PROJECT_VERSION={edge_embed.__version__}"
    run_cmake([*configure, *generator, version, *toolchain.settings, *product.settings], time_limit, what)
    run_cmake(["--build", str(work), "--parallel"], time_limit, what)
    run_cmake(["--install", str(work), "--prefix", str(folder), "--component", product.component], time_limit, what)
