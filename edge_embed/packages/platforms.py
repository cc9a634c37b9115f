"""Platforms of `edge-embed package`, and the builds that each consists of."""

from dataclasses import dataclass
from typing import Literal

from edge_embed.errors import BadInputError, suggested

Format = Literal["ELF", "Mach-O", "PE", "WebAssembly"]


@dataclass(frozen=True)
class Build:
    """Libraries for one processor of a platform.

    Attributes:
        preset: name of the preset of CMake.
        processor: name of the processor.
        minimum: oldest system that loads them: version of glibc, of macOS or of iOS; empty if the file names none.
        abi: name of the Android ABI.
    """

    preset: str
    processor: str
    minimum: str = ""
    abi: str = ""


@dataclass(frozen=True)
class Platform:
    """A platform of packages.

    Attributes:
        name: name on the command line.
        binary_format: format of its libraries.
        builds: one for each processor, or for a device and a simulator.
        is_freestanding: whether its operator library calls no other library.
        is_static: whether apps link its libraries statically.
    """

    name: str
    binary_format: Format
    builds: tuple[Build, ...]
    is_freestanding: bool = False
    is_static: bool = False


PLATFORMS = {
    platform.name: platform
    for platform in (
        Platform(
            "android",
            "ELF",
            (
                Build("android", "arm64", abi="arm64-v8a"),
                Build("android-armeabi-v7a", "arm", abi="armeabi-v7a"),
                Build("android-x86_64", "x86-64", abi="x86_64"),
            ),
            is_freestanding=True,
        ),
        Platform(
            "ios",
            "Mach-O",
            (
                Build("ios", "arm64", "15.1"),
                Build("ios-simulator", "arm64", "15.1"),
                Build("ios-simulator-x64", "x86-64", "15.1"),
            ),
            is_static=True,
        ),
        Platform("macos", "Mach-O", (Build("macos", "arm64", "11.0"), Build("macos-x64", "x86-64", "11.0"))),
        Platform("windows", "PE", (Build("windows", "x86-64"),)),
        Platform("linux-x64", "ELF", (Build("linux-x64", "x86-64", "2.17"),)),
        Platform("linux-arm64", "ELF", (Build("linux-arm64", "arm64", "2.28"),)),
        Platform("web", "WebAssembly", (Build("web", "wasm32"), Build("web-scalar", "wasm32")), is_freestanding=True),
    )
}


def find_platform(name: str) -> Platform:
    """Return a platform by its name.

    Raises:
        BadInputError: if there is none.
    """
    if name not in PLATFORMS:
        hint = suggested(name, PLATFORMS)
        raise BadInputError(f"platform: got {name!r:.80}, {hint}expected one of {', '.join(PLATFORMS)}")
    return PLATFORMS[name]
