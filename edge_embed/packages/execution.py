"""Runs of packaged libraries on this machine: natively, under QEMU, under Wine or under Node.js.

The program is ``runtime_ops/package/check.c``. It calls every use of the C interface, and gives ids that are no rows.
"""

import os
import platform as machine
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import edge_embed
from edge_embed.errors import EdgeEmbedError
from edge_embed.packages.platforms import Build, Platform
from edge_embed.packages.toolchain import Toolchain
from edge_embed.packages.web import run_module
from edge_embed.report.results.targets import Evidence
from edge_embed.targets.build import source_folder
from edge_embed.targets.cache import cached_folder
from edge_embed.targets.process import finish_program, run_tool
from edge_embed.targets.target import NotRunError

_ARM64_ROOT = Path("/usr/aarch64-linux-gnu")
_FORCED = "EDGE_EMBED_FORCE_ISA"
_UNAME = {"x86-64": ("x86_64", "AMD64"), "arm64": ("arm64", "aarch64")}
_SYSTEM = {"ELF": "linux", "Mach-O": "darwin", "PE": "win32"}


def run_library(
    platform: Platform, build: Build, toolchain: Toolchain, tree: Path, time_limit: float
) -> tuple[Evidence, str]:
    """Run the shared library with every instruction set that the processor has, or a WebAssembly module.

    Args:
        platform: its platform.
        build: its processor.
        toolchain: the compiler of the program that calls it.
        tree: folder with ``include`` and ``lib``.
        time_limit: seconds for each program.

    Returns:
        The kind of evidence, and the instruction sets that ran.

    Raises:
        NotRunError: if this machine cannot run it, with the missing part.
        EdgeEmbedError: if it gives a wrong result.
    """
    if platform.name == "web":
        return run_module(build, tree, time_limit)
    if not toolchain.c_compiler:
        raise NotRunError(f"{toolchain.name} compiles no program for this machine")
    evidence, starter = _starter(platform, build)
    with tempfile.TemporaryDirectory() as temporary:
        program = _compile(platform, toolchain, tree, Path(temporary), time_limit)
        listed = _run([*starter, program, "list"], "", time_limit)
        if not listed:
            raise EdgeEmbedError(f"{build.preset}: the library lists no instruction set that runs here")
        for name in listed:
            got = _run([*starter, program], name, time_limit)
            expected = [f"{edge_embed.__version__} {name}"]
            if got != expected:
                raise EdgeEmbedError(f"{build.preset}: got {' '.join(got)!r:.200}, expected {expected[0]!r}")
    return evidence, ", ".join(listed)


def _starter(platform: Platform, build: Build) -> tuple[Evidence, list[str]]:
    """Return the command that starts a program of the platform.

    Raises:
        NotRunError: if there is none.
    """
    if platform.name in ("android", "ios"):
        raise NotRunError("this machine is no phone")
    is_here = sys.platform == _SYSTEM[platform.binary_format]
    if is_here and machine.machine() in _UNAME[build.processor]:
        return "executed-native", []
    if platform.name == "linux-arm64" and sys.platform == "linux":
        if shutil.which("qemu-aarch64") is None or not _ARM64_ROOT.is_dir():
            raise NotRunError("qemu-aarch64 or libc for arm64 is missing: apt-get install qemu-user libc6-arm64-cross")
        return "executed-emulated", ["qemu-aarch64", "-U", "LD_PRELOAD", "-L", str(_ARM64_ROOT)]
    if platform.name == "windows":
        wine = shutil.which("wine") or shutil.which("wine64")
        if wine is None or machine.machine() not in _UNAME["x86-64"]:
            raise NotRunError("wine is missing: apt-get install wine")
        return "executed-emulated", [wine]
    raise NotRunError(f"this machine is no {platform.name} on {build.processor}")


def _compile(platform: Platform, toolchain: Toolchain, tree: Path, folder: Path, time_limit: float) -> str:
    """Return the path of the program, with the library beside it."""
    program = folder / ("check.exe" if platform.binary_format == "PE" else "check")
    for path in [*tree.glob("bin/*.dll"), *tree.glob("lib/*.so"), *tree.glob("lib/*.dylib")]:
        shutil.copy2(path, folder)
    source = str(source_folder() / "package" / "check.c")
    library = str(tree / "lib" / "edge_embed_ops.lib") if platform.binary_format == "PE" else f"-L{folder}"
    link = [library] if platform.binary_format == "PE" else [library, "-ledge_embed_ops", "-Wl,-rpath,$ORIGIN"]
    command = [*toolchain.c_compiler, "-O1", source, f"-I{tree / 'include'}", *link, "-o", str(program)]
    run_tool(command, time_limit, what=f"the compiler of the check program ({toolchain.name})")
    return str(program)


def _run(command: Sequence[str], isa: str, time_limit: float) -> list[str]:
    environment = {_FORCED: isa, "WINEDEBUG": "-all"}
    if "WINEPREFIX" not in os.environ:  # the default is a folder of the user, which the first start would fill
        environment["WINEPREFIX"] = str(cached_folder("wine"))
    done = finish_program(command, time_limit, what=command[0], environment=environment)
    if done.status != 0:
        raise EdgeEmbedError(f"the packaged library failed{f' with {isa}' if isa else ''}: {done.ending}")
    return done.printed.split("\n")[:-1] if not isa else [done.printed.strip()]
