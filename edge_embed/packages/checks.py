"""Requirements of a packaged library, and whether a built file meets them."""

import re
from collections.abc import Iterator
from pathlib import Path

from edge_embed.errors import EdgeEmbedError
from edge_embed.packages.binaries import Binary, as_numbers, read_binaries
from edge_embed.packages.platforms import Build, Platform

_DECLARED = re.compile(r"^EE_API\b[^;(]*?\b(\w+)\(", re.MULTILINE)
_HEADERS = {"ops": ("c_api/edge_embed.h", "ops.h"), "tflite": ("tflite.h",)}
_ONNX_RUNTIME = "RegisterCustomOps"  # in no header: ONNX Runtime looks the name up
# Libraries that every system of the platform has.
_SYSTEM = re.compile(r"libc\.so(\.6)?|/usr/lib/libSystem\.B\.dylib|KERNEL32\.dll|api-ms-win-crt-\w+-l1-1-0\.dll")
_PAGE = 16384  # of Android 15, and of arm64 in Linux


def check_library(path: Path, platform: Platform, builds: tuple[Build, ...], include: Path) -> str:
    """Return a line about a library that meets all requirements.

    Args:
        path: library, shared or static.
        platform: its platform.
        builds: the processors that it must have.
        include: folder of the headers, which declare its functions.

    Raises:
        EdgeEmbedError: if it does not meet one.
    """
    found = {binary.processor: binary for binary in read_binaries(path)}
    expected = {build.processor: build for build in builds}
    faults = [] if found.keys() == expected.keys() else [f"got code for {sorted(found)}, expected {sorted(expected)}"]
    part = "tflite" if "tflite" in path.name.lower() else "ops"
    names = exported_names(include, part)
    for processor in found.keys() & expected.keys():
        faults += _faults(path, found[processor], platform, expected[processor], names)
    if faults:
        raise EdgeEmbedError(f"{path.name}: {'; '.join(faults)}: report this as a bug, with the name of the compiler")
    return "; ".join(_facts(found[processor]) for processor in sorted(found))


def exported_names(include: Path, part: str) -> frozenset[str]:
    """Return the functions that the headers of a library declare, and the entry point of ONNX Runtime."""
    texts = [(include / "edge_embed" / name).read_text(encoding="utf-8") for name in _HEADERS[part]]
    names = {name for text in texts for name in _DECLARED.findall(text)}
    return frozenset(names | {_ONNX_RUNTIME} if part == "ops" else names)


def _faults(path: Path, binary: Binary, platform: Platform, build: Build, names: frozenset[str]) -> Iterator[str]:
    is_static, is_delegate = path.suffix == ".a", "tflite" in path.name.lower()
    if binary.binary_format != platform.binary_format:
        yield f"got {binary.binary_format}, expected {platform.binary_format}"
    if missing := names - binary.exports:
        yield f"does not export {', '.join(sorted(missing))}"
    if not is_static and (more := binary.exports - names):
        yield f"exports {', '.join(sorted(more)[:5])} beside its functions"
    if build.minimum and as_numbers(binary.minimum) > as_numbers(build.minimum):
        yield f"needs version {binary.minimum} of the system, expected {build.minimum} or older"
    if binary.binary_format == "ELF" and not is_static and binary.alignment < _PAGE:
        yield f"got segments aligned to {binary.alignment} bytes, expected {_PAGE}"
    others = [name for name in binary.needed if not _SYSTEM.fullmatch(name) and "edge_embed_ops" not in name]
    if others:
        yield f"needs {', '.join(others)}"
    if platform.is_freestanding and not is_delegate and (binary.needed or binary.imports):
        yield f"needs {', '.join([*binary.needed, *sorted(binary.imports)])}, expected nothing"
    if platform.binary_format == "Mach-O" and binary.system != _system(build):
        yield f"is for {binary.system or 'no system'}, expected {_system(build)}"
    if platform.binary_format == "Mach-O" and build.processor == "arm64" and not is_static and not binary.is_signed:
        yield "has no signature, which macOS requires on arm64"


def _system(build: Build) -> str:
    """Return the name of the system in the file: presets are ``macos``, ``ios-simulator-x64`` and the like."""
    return "_".join(part for part in build.preset.split("-") if part != "x64").upper()


def _facts(binary: Binary) -> str:
    facts = [f"{binary.binary_format} {binary.processor}"]
    if binary.minimum:
        facts.append(f"{'glibc' if binary.binary_format == 'ELF' else 'system'} {binary.minimum} or newer")
    if binary.needed:
        facts.append(f"needs {', '.join(name.rpartition('/')[2] for name in binary.needed)}")
    if binary.alignment:
        facts.append(f"pages of {binary.alignment} bytes")
    if binary.is_signed:
        facts.append("signed by the linker")
    return ", ".join(facts)
