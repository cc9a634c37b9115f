"""`python -m release.wheels`: a source distribution, and a wheel for each platform, made on one machine.

The libraries are built by the compilers of `edge-embed package`, and stay in the cache of the user. Each wheel is made
from the source distribution, with the libraries of its platform in place of a build by CMake. Two runs from the same
commit write the same bytes.
"""

import os
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import click
from build import BuildBackendException, ProjectBuilder
from build.env import DefaultIsolatedEnv
from pyproject_hooks import quiet_subprocess_runner

from edge_embed.errors import EdgeEmbedError
from edge_embed.packages.builds import Product, install_tree
from edge_embed.packages.toolchain import Toolchain, find_toolchain, missing_tools
from edge_embed.report.results.targets import Problem
from edge_embed.targets.target import NotRunError
from release.contents import check_wheel
from release.tags import TARGETS, Target, find_targets

ROOT = Path(__file__).parents[1]
_TIME = "SOURCE_DATE_EPOCH"  # the time of all files in archives
_LIBRARIES = Path("edge_embed", "runtime")
_LONGEST = 2000


@click.command()
@click.option("--output", "-o", type=click.Path(path_type=Path), default=Path("dist"), show_default=True)
@click.option("--platform", "names", multiple=True, metavar="NAME", help=f"{', '.join(TARGETS)}. [all]")
@click.option("--time-limit", type=click.IntRange(min=1), default=1800, show_default=True, help="Seconds for a build.")
def main(output: Path, names: tuple[str, ...], time_limit: int) -> None:
    """Make the source distribution and a wheel for each platform, inspect them, and write them to a folder."""
    if _git("status", "--porcelain"):
        click.echo("warning: changes and files that are not committed become part of these distributions", err=True)
    try:
        made = make_distributions(find_targets(names), output, time_limit)
    except EdgeEmbedError as error:
        raise click.ClickException(str(error)) from error
    for path, facts in made.items():
        click.echo(f"{path.name}  {path.stat().st_size} bytes")
        for fact in facts:
            click.echo(f"    {fact}")


def make_distributions(targets: list[Target], output: Path, time_limit: float) -> dict[Path, list[str]]:
    """Make the source distribution and a wheel for each target.

    Args:
        targets: platforms of the wheels.
        output: folder; it may exist, and files of the same names are replaced.
        time_limit: seconds for each step of a build.

    Returns:
        Facts about the libraries, for each file.

    Raises:
        EdgeEmbedError: if a tool is missing, a build fails, or a wheel does not meet the requirements.
    """
    os.environ.setdefault(_TIME, _commit_time())
    toolchains = _toolchains(targets)
    with tempfile.TemporaryDirectory() as temporary:
        sources, done = Path(temporary, "sources"), Path(temporary, "done")
        with _builder_environment() as environment:
            sdist = _build(environment, ROOT, "sdist", done, {})
            _unpack(sdist, sources)
            made: dict[Path, list[str]] = {sdist: []}
            for target in targets:
                libraries = _libraries(target, toolchains[target], time_limit)
                wheel = _assemble(environment, sources, target, libraries, done)
                made[wheel] = check_wheel(wheel, target, (ROOT, Path.home(), Path(temporary)))
        output.mkdir(parents=True, exist_ok=True)
        return {Path(shutil.move(path, output / path.name)): facts for path, facts in made.items()}


def _commit_time() -> str:
    if not (time := _git("log", "-1", "--format=%ct")):
        raise EdgeEmbedError(f"{ROOT} is no git repository, whose last commit gives the time of files: set {_TIME}")
    return time


def _git(*arguments: str) -> str:
    """Return what git prints; nothing outside a repository."""
    return subprocess.run(
        ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
    ).stdout.strip()


def _toolchains(targets: list[Target]) -> dict[Target, Toolchain]:
    found = {target: find_toolchain(target.platform, target.build) for target in targets}
    lacks = missing_tools() + [toolchain for toolchain in found.values() if isinstance(toolchain, Problem)]
    if lacks:
        missing = "; ".join(dict.fromkeys(f"{problem.what}: {problem.remedy}" for problem in lacks))
        raise EdgeEmbedError(f"nothing was made: {missing}")
    return {target: toolchain for target, toolchain in found.items() if isinstance(toolchain, Toolchain)}


def wheel_product(target: Target) -> Product:
    """Return the build of all libraries and programs of a wheel."""
    settings = (
        "-DEDGE_EMBED_PACKAGE=OFF",
        "-DEDGE_EMBED_BENCH=ON",
        "-DEDGE_EMBED_TRAINING=ON",
        f"-DEDGE_EMBED_RUNNER={'ON' if target.has_runner else 'OFF'}",
        "-DEDGE_EMBED_ZIG_DRIVER=c++",
        "-DCMAKE_BUILD_WITH_INSTALL_RPATH=ON",  # no tool of this machine changes paths in files of others
    )
    return Product("wheel", "Unspecified", settings)


def _libraries(target: Target, toolchain: Toolchain, time_limit: float) -> Path:
    click.echo(f"{target.build.preset} with {toolchain.name}", err=True)
    try:
        return install_tree(target.build, toolchain, time_limit, wheel_product(target)) / _LIBRARIES
    except NotRunError as error:
        raise EdgeEmbedError(f"nothing was made: {error}") from error


@contextmanager
def _builder_environment() -> Iterator[DefaultIsolatedEnv]:
    with DefaultIsolatedEnv() as environment:
        builder = ProjectBuilder.from_isolated_env(environment, ROOT)
        environment.install(builder.build_system_requires)
        yield environment


def _build(
    environment: DefaultIsolatedEnv,
    sources: Path,
    kind: Literal["sdist", "wheel"],
    output: Path,
    settings: Mapping[str, str],
) -> Path:
    builder = ProjectBuilder.from_isolated_env(environment, sources, quiet_subprocess_runner)
    try:
        return Path(builder.build(kind, output, settings))
    except BuildBackendException as error:
        log = getattr(error.exception, "output", None) or str(error).encode()
        text = log.decode("utf-8", "replace")[-_LONGEST:]
        raise EdgeEmbedError(f"nothing was made: the {kind} cannot be built: {text}") from error


def _unpack(sdist: Path, folder: Path) -> None:
    with tarfile.open(sdist) as archive:
        (top,) = {name.partition("/")[0] for name in archive.getnames()}
        archive.extractall(folder.parent, filter="data")
    (folder.parent / top).rename(folder)


def _assemble(environment: DefaultIsolatedEnv, sources: Path, target: Target, libraries: Path, output: Path) -> Path:
    """Make the wheel of a target: the sources with its libraries."""
    folder = sources / _LIBRARIES
    copied = [Path(shutil.copy2(libraries / name, folder)) for name in sorted(target.files)]
    try:
        settings = {"wheel.cmake": "false", "wheel.platlib": "true", "wheel.tags": target.tag}
        return _build(environment, sources, "wheel", output, settings)
    finally:
        for path in copied:
            path.unlink()


if __name__ == "__main__":
    main()
