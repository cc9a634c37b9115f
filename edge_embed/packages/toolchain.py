"""Compilers for packages: the platform's own where it is found, else zig."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from edge_embed.packages.platforms import Build, Platform
from edge_embed.report.results.targets import Problem
from edge_embed.targets.build import cmake_program, source_folder

NDK_VARIABLES = ("ANDROID_NDK_HOME", "ANDROID_NDK_ROOT")
_NDK_FILE = Path("build", "cmake", "android.toolchain.cmake")
_ZIG = Problem("zig is missing", 'python -m pip install "edge-embed[package]"')
_NO_ZIG = "-DCMAKE_TOOLCHAIN_FILE="  # in place of that of the preset
_HOST = {"linux-x64": ("x86_64", "g++"), "linux-arm64": ("aarch64", "aarch64-linux-gnu-g++")}
_SDKS = {"ios": "iphoneos", "ios-simulator": "iphonesimulator", "ios-simulator-x64": "iphonesimulator"}
_APPLE = {"arm64": "arm64", "x86-64": "x86_64"}


@dataclass(frozen=True)
class Toolchain:
    """A compiler for a build.

    Attributes:
        name: description with version.
        settings: settings of CMake.
        c_compiler: command that compiles and links a C program for the platform; empty if there is none.
    """

    name: str
    settings: tuple[str, ...]
    c_compiler: tuple[str, ...] = ()


def missing_tools() -> list[Problem]:
    """List the missing tools that every build needs, beside its compiler."""
    found = []
    if cmake_program() is None:
        found.append(Problem("cmake is missing", 'python -m pip install "edge-embed[package]"'))
    if ninja_program() is None and shutil.which("make") is None:
        found.append(Problem("ninja and make are missing", "python -m pip install ninja, or apt-get install make"))
    return found


def ninja_program() -> str | None:
    """Return the program of the Python package ninja, or the system's."""
    return shutil.which("ninja", path=str(Path(sys.executable).parent)) or shutil.which("ninja")


def find_toolchain(platform: Platform, build: Build) -> Toolchain | Problem:
    """Return the compiler for a build, or the missing part."""
    if platform.name == "android" and (ndk := _ndk_folder()) is not None:
        return _ndk(ndk, build)
    if sys.platform == "darwin" and platform.binary_format == "Mach-O" and shutil.which("xcrun"):
        return _xcode(build)
    if (zig := zig_program()) is not None:
        compiler = (str(zig), "cc", "-target", _zig_target(build))
        return Toolchain(f"zig {_version_of(zig)}", (f"-DEDGE_EMBED_ZIG={zig}",), compiler)
    return _gcc(build) or _ZIG


def zig_program() -> Path | None:
    """Return the program of PATH, or that of the Python package ziglang."""
    found = shutil.which("zig")
    if found:
        return Path(found)
    package = importlib.util.find_spec("ziglang")
    if package is None or package.origin is None:
        return None
    program = Path(package.origin).parent / ("zig.exe" if sys.platform == "win32" else "zig")
    return program if program.is_file() else None


def _version_of(zig: Path) -> str:
    done = subprocess.run([zig, "version"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "of unknown version"


def _zig_target(build: Build) -> str:
    """Return zig's name of the platform, which the preset holds."""
    presets = json.loads((source_folder() / "CMakePresets.json").read_text(encoding="utf-8"))["configurePresets"]
    (preset,) = (preset for preset in presets if preset["name"] == build.preset)
    return str(preset["cacheVariables"]["EDGE_EMBED_ZIG_TARGET"])


def _ndk_folder() -> Path | None:
    folders = (Path(os.environ[name]) for name in NDK_VARIABLES if os.environ.get(name))
    return next((folder for folder in folders if (folder / _NDK_FILE).is_file()), None)


def _ndk(folder: Path, build: Build) -> Toolchain:
    settings = (
        f"-DCMAKE_TOOLCHAIN_FILE={folder / _NDK_FILE}",
        f"-DANDROID_ABI={build.abi}",
        "-DANDROID_PLATFORM=android-24",  # the oldest that ONNX Runtime's own packages support
        "-DEDGE_EMBED_ANDROID=OFF",
    )
    return Toolchain(f"Android NDK {folder.name}", settings)


def _xcode(build: Build) -> Toolchain:
    sdk = _SDKS.get(build.preset)
    system = (f"-DCMAKE_SYSTEM_NAME=iOS -DCMAKE_OSX_SYSROOT={sdk}".split()) if sdk else []
    settings = (
        _NO_ZIG,
        *system,
        f"-DCMAKE_OSX_ARCHITECTURES={_APPLE[build.processor]}",
        f"-DCMAKE_OSX_DEPLOYMENT_TARGET={build.minimum}",
    )
    return Toolchain("Xcode", settings)


def _gcc(build: Build) -> Toolchain | None:
    """Return the compiler of this Linux, or its cross compiler; its libraries may need a newer glibc than zig's."""
    if sys.platform != "linux" or build.preset not in _HOST:
        return None
    processor, cross = _HOST[build.preset]
    if os.uname().machine == processor and shutil.which("g++"):
        return Toolchain("g++", (_NO_ZIG,), ("gcc",))
    if cross == "g++" or not shutil.which(cross):
        return None
    settings = ("-DCMAKE_SYSTEM_NAME=Linux", f"-DCMAKE_SYSTEM_PROCESSOR={processor}", f"-DCMAKE_CXX_COMPILER={cross}")
    return Toolchain(cross, (_NO_ZIG, *settings), (cross.replace("g++", "gcc"),))
