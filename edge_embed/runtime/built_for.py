"""System and processor of a library, from the first bytes of its file, and those of this machine."""

import platform
import sys
from pathlib import Path

_HEAD = 4096
_ELF = {62: "x86-64", 183: "arm64", 40: "arm"}  # e_machine of <elf.h>
_MACHO = {0x01000007: "x86-64", 0x0100000C: "arm64"}  # cputype of <mach/machine.h>
_PE = {0x8664: "x86-64", 0xAA64: "arm64"}  # IMAGE_FILE_HEADER.Machine
_SYSTEMS = {"linux": "Linux", "darwin": "macOS", "win32": "Windows"}
_PROCESSORS = {"x86_64": "x86-64", "AMD64": "x86-64", "aarch64": "arm64", "ARM64": "arm64"}


def built_for(path: Path) -> str:
    """Return the system and processor of a library, such as ``Linux on arm64``; ``no known system`` of other files."""
    with path.open("rb") as file:
        head = file.read(_HEAD)
    if head.startswith(b"\x7fELF"):
        return _named("Linux", _ELF, head, 18, 2)
    if head.startswith(b"\xcf\xfa\xed\xfe"):
        return _named("macOS", _MACHO, head, 4, 4)
    if head.startswith(b"MZ"):
        return _named("Windows", _PE, head, _number(head, 0x3C, 4) + 4, 2)  # after the signature
    return "no known system"


def this_machine() -> str:
    """Return the same of this machine."""
    processor = platform.machine()
    return f"{_SYSTEMS.get(sys.platform, sys.platform)} on {_PROCESSORS.get(processor, processor)}"


def _named(system: str, processors: dict[int, str], head: bytes, at: int, size: int) -> str:
    return f"{system} on {processors.get(_number(head, at, size), 'an unknown processor')}"


def _number(head: bytes, at: int, size: int) -> int:
    return int.from_bytes(head[at : at + size], "little")
