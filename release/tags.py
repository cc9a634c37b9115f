"""Platforms that have a wheel: tags of PyPI, and the build of `edge-embed package` that each is made by."""

from dataclasses import dataclass

from edge_embed.errors import BadInputError, suggested
from edge_embed.packages.platforms import PLATFORMS, Build, Platform

_NAMES = ("linux-x64", "linux-arm64", "macos", "windows")
_PROCESSORS = {
    "ELF": {"x86-64": "x86_64", "arm64": "aarch64"},
    "Mach-O": {"x86-64": "x86_64", "arm64": "arm64"},
    "PE": {"x86-64": "amd64"},
}


@dataclass(frozen=True)
class Target:
    """A platform and processor that has a wheel."""

    platform: Platform
    build: Build

    @property
    def tag(self) -> str:
        """Return the tag in the name of the wheel: no part of it depends on a version of Python."""
        processor = _PROCESSORS[self.platform.binary_format][self.build.processor]
        minimum = self.build.minimum.replace(".", "_")
        system = {"ELF": f"manylinux_{minimum}", "Mach-O": f"macosx_{minimum}", "PE": "win"}
        return f"py3-none-{system[self.platform.binary_format]}_{processor}"

    @property
    def files(self) -> frozenset[str]:
        """Return the names of the libraries and programs in the wheel."""
        shape = {"ELF": "lib{}.so", "Mach-O": "lib{}.dylib", "PE": "{}.dll"}[self.platform.binary_format]
        names = {shape.format(f"edge_embed_{part}") for part in ("bench", "ops", "tflite", "training")}
        if self.has_runner:
            names.add("edge_embed_runner")
        if self.platform.binary_format == "ELF":
            names.add("libedge_embed_count.so")
        return frozenset(names)

    @property
    def has_runner(self) -> bool:
        """Return whether the program that runs a model is there: it needs functions of POSIX."""
        return self.platform.binary_format != "PE"


TARGETS = {build.preset: Target(PLATFORMS[name], build) for name in _NAMES for build in PLATFORMS[name].builds}


def find_targets(names: tuple[str, ...]) -> list[Target]:
    """Return the named targets, or all.

    Raises:
        BadInputError: if a name is unknown.
    """
    for name in names:
        if name not in TARGETS:
            hint = suggested(name, TARGETS)
            raise BadInputError(f"platform: got {name!r:.80}, {hint}expected one of {', '.join(TARGETS)}")
    return [TARGETS[name] for name in names or TARGETS]
