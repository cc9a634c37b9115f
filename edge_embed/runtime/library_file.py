"""Facts about the file of an operator library, read without loading it: loading runs its code."""

import platform
import re
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.input_file import read_whole
from edge_embed.runtime.library import package_version

_ENTRY, _OURS = b"RegisterCustomOps\0", b"ee_version\0"  # functions; ONNX Runtime calls the first
_MOST_BYTES = 256 << 20
_X86, _ARM = "x86-64", "arm64"
# Numbers of processors in the headers of libraries, by format.
_ELF = {62: _X86, 183: _ARM, 40: "arm", 3: "x86", 243: "riscv"}
_MACH_O = {0x0100_0007: _X86, 0x0100_000C: _ARM}
_PE = {0x8664: _X86, 0xAA64: _ARM}
_PROCESSORS = {"x86_64": _X86, "amd64": _X86, "aarch64": _ARM, "arm64": _ARM}  # names of the system
_SYSTEMS = {"darwin": "macOS", "win32": "Windows"}
_VERSION = re.compile(rb"edge-embed version (\d+\.\d+\.\d+[\w.+-]*)\0")  # of ee_version


@dataclass(frozen=True)
class LibraryFile:
    """A library that ONNX Runtime on this machine can load.

    Attributes:
        version: version of edge-embed; empty for a library of others.
        platform: system and processor.
        content: all bytes.
    """

    version: str
    platform: str
    content: bytes

    @property
    def facts(self) -> str:
        """Return version and platform in words."""
        what = f"operator library {self.version}" if self.version else "library of others"
        return f"{what} for {self.platform}"


def read_library(path: Path, operators: Iterable[str]) -> LibraryFile:
    """Read a library for a model.

    Args:
        path: path of the file.
        operators: types of the operators of edge-embed that the model uses.

    Raises:
        BadInputError: it is missing, cut off, for another platform, no library of operators, of another version, or
            lacks an operator. The message does not name the path.
    """
    remedy = "copy the library that edge_embed.get_library_path() names"
    content = read_whole(path, _MOST_BYTES, f"the operator library: {remedy}")
    here = f"{_SYSTEMS.get(sys.platform, 'Linux')} {_PROCESSORS.get(platform.machine().lower(), platform.machine())}"
    found = _platforms(content)
    if not found:
        raise BadInputError(f"got a file that begins with {content[:8]!r}, expected a library: {remedy}")
    if here not in found:
        raise BadInputError(
            f"got a library for {', '.join(found)}, expected one for {here}, this machine: {remedy}, and put that of "
            "a device in after validation"
        )
    if _is_cut(content):
        raise BadInputError(f"got a library that ends early, after {len(content):,} bytes: {remedy}")
    if _ENTRY not in content:
        raise BadInputError(
            f"got a library without the function RegisterCustomOps, expected one of operators: {remedy}"
        )
    if _OURS not in content:
        return LibraryFile("", here, content)
    versions, expected = [found.decode() for found in _VERSION.findall(content)], package_version()
    if expected not in versions:
        got = ", ".join(versions[:3]) or "none"
        raise BadInputError(f"got an operator library of version {got}, expected {expected} as the package: {remedy}")
    if lacking := [name for name in operators if name.encode() + b"\0" not in content]:
        raise BadInputError(
            f"got an operator library without {', '.join(lacking)}, expected the operators of the model: build it "
            "with EDGE_EMBED_METHODS=all"
        )
    return LibraryFile(expected, here, content)


def _platforms(content: bytes) -> list[str]:
    """Return system and processor of a library, of each part of a universal one; empty for other files."""
    if content.startswith(b"\x7fELF") and len(content) >= 64:
        (kind,) = struct.unpack_from("<H" if content[5] == 1 else ">H", content, 18)
        return [f"Linux {_ELF.get(kind, f'processor {kind}')}"]
    if content.startswith(b"\xcf\xfa\xed\xfe") and len(content) >= 32:
        return [_mac(struct.unpack_from("<I", content, 4)[0])]
    if content.startswith(b"\xca\xfe\xba\xbe") and len(content) >= 8:
        count = min(int.from_bytes(content[4:8], "big"), (len(content) - 8) // 20)
        return [_mac(struct.unpack_from(">I", content, 8 + 20 * at)[0]) for at in range(count)]
    if content.startswith(b"MZ") and len(content) >= 64:
        at = int.from_bytes(content[60:64], "little")
        kind = int.from_bytes(content[at + 4 : at + 6], "little")
        return [f"Windows {_PE.get(kind, f'processor {kind}')}"] if content[at : at + 4] == b"PE\0\0" else []
    return []


def _mac(kind: int) -> str:
    return f"macOS {_MACH_O.get(kind, f'processor {kind}')}"


def _is_cut(content: bytes) -> bool:
    """Return whether an ELF file of 64 bits ends before its table of sections, which is its last part."""
    if not content.startswith(b"\x7fELF\x02\x01"):
        return False
    (begin,) = struct.unpack_from("<Q", content, 40)
    size, count = struct.unpack_from("<HH", content, 58)
    return bool(begin + size * count > len(content))
