"""`make_package`: builds, inspects, executes and writes the package of a platform."""

import hashlib
from collections.abc import Callable
from pathlib import Path

from edge_embed.errors import EdgeEmbedError
from edge_embed.files import check_new_folder, new_folder
from edge_embed.packages.builds import install_tree
from edge_embed.packages.execution import run_library
from edge_embed.packages.layout import lay_out
from edge_embed.packages.platforms import Build, Platform, find_platform
from edge_embed.packages.toolchain import Toolchain, find_toolchain, missing_tools
from edge_embed.packages.work import Details, Work
from edge_embed.report.results.packaged import NotMade, PackagedFile, PackageReport
from edge_embed.report.results.targets import Problem
from edge_embed.targets.target import NotRunError

MARK = "edge_embed_package.txt"  # identifies folders that --force may replace
Progress = Callable[[str, int, int], None]


def make_package(name: str, output: Path, *, force: bool, time_limit: float, progress: Progress) -> PackageReport:
    """Make the package of a platform.

    Args:
        name: name of the platform.
        output: folder that is made.
        force: replace an earlier package.
        time_limit: seconds for each program.
        progress: function that shows the builds.

    Raises:
        BadInputError: if there is no such platform, or the folder exists.
        EdgeEmbedError: if a tool is missing, or a built library does not meet the requirements.
    """
    platform = find_platform(name)
    check_new_folder(output.absolute(), MARK, force)
    toolchains = _toolchains(platform)
    work = Work(platform)
    for number, (build, toolchain) in enumerate(toolchains.items()):
        progress(build.preset, number, len(toolchains))
        _build(work, build, toolchain, time_limit)
    progress(platform.name, len(toolchains), len(toolchains))
    with new_folder(output, MARK, force=force) as folder:
        details = lay_out(work, folder)
        files = _list_files(work, folder, details)
        names = tuple(dict.fromkeys(toolchain.name for toolchain in toolchains.values()))
        report = PackageReport(name, output, names, files, tuple(work.not_executed), tuple(work.not_made))
        (folder / MARK).write_text(_mark_text(report), encoding="utf-8")
    return report


def _toolchains(platform: Platform) -> dict[Build, Toolchain]:
    """Return the compiler of each build.

    Raises:
        EdgeEmbedError: if a tool is missing.
    """
    found = {build: find_toolchain(platform, build) for build in platform.builds}
    lacks = missing_tools() + [toolchain for toolchain in found.values() if isinstance(toolchain, Problem)]
    if lacks:
        missing = "; ".join(dict.fromkeys(f"{problem.what}: {problem.remedy}" for problem in lacks))
        raise EdgeEmbedError(f"platform {platform.name}: nothing was made: {missing}")
    return {build: toolchain for build, toolchain in found.items() if isinstance(toolchain, Toolchain)}


def _build(work: Work, build: Build, toolchain: Toolchain, time_limit: float) -> None:
    try:
        tree = work.trees[build] = install_tree(build, toolchain, time_limit)
    except NotRunError as error:
        raise EdgeEmbedError(f"platform {work.platform.name}: nothing was made: {error}") from error
    try:
        work.ran[build] = run_library(work.platform, build, toolchain, tree, time_limit)
    except NotRunError as error:
        work.not_executed.append(NotMade(build.preset, str(error)))


def _list_files(work: Work, folder: Path, details: Details) -> tuple[PackagedFile, ...]:
    files = []
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = path.read_bytes()
        name, facts = path.relative_to(folder).as_posix(), details.get(path)
        digest = hashlib.sha256(data).hexdigest()
        if facts is None:
            files.append(PackagedFile(name, len(data), digest))
            continue
        text, builds = facts
        # Static libraries and the delegate are not called by the program that ran.
        ran = [work.ran[build] for build in builds if build in work.ran]
        if ran and path.suffix != ".a" and "tflite" not in path.name:
            evidence, isas = ran[0]
            files.append(PackagedFile(name, len(data), digest, "executed", evidence, f"{text}; ran {isas}"))
        else:
            files.append(PackagedFile(name, len(data), digest, "checked", None, text))
    return tuple(files)


def _mark_text(report: PackageReport) -> str:
    """Return a text that is the same for every build of the same sources by the same compiler."""
    lines = [f"edge-embed package for {report.platform}, built by {' and '.join(report.toolchains)}.", ""]
    lines += [f"{file.sha256}  {file.path}" for file in report.files]
    return "\n".join(lines) + "\n"
