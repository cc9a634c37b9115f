"""Universal files of macOS and iOS: several files, one for each processor, behind a header (<mach-o/fat.h>)."""

import struct
from collections.abc import Mapping

from edge_embed.errors import BadInputError

MAGIC = b"\xca\xfe\xba\xbe"
_CPU = {"x86-64": (0x01000007, 3), "arm64": (0x0100000C, 0)}  # cputype, cpusubtype
_ALIGNMENT = 14  # the page of arm64 as a power of two
_ENTRY = ">5I"


def join_slices(slices: Mapping[str, bytes]) -> bytes:
    """Return one file of the files for each processor."""
    page = 1 << _ALIGNMENT
    head, body = MAGIC + struct.pack(">I", len(slices)), b""
    for processor, data in slices.items():
        body += b"\0" * (-len(body) % page)
        head += struct.pack(_ENTRY, *_CPU[processor], page + len(body), len(data), _ALIGNMENT)
        body += data
    return head.ljust(page, b"\0") + body


def split_slices(data: bytes) -> list[bytes]:
    """Return the files in a universal file; another file is its only one.

    Raises:
        BadInputError: if a part lies outside of the file.
    """
    if not data.startswith(MAGIC):
        return [data]
    count = int.from_bytes(data[4:8], "big")
    size = struct.calcsize(_ENTRY)
    slices = []
    for at in range(8, 8 + count * size, size):
        entry = data[at : at + size]
        offset, length = struct.unpack(_ENTRY, entry)[2:4] if len(entry) == size else (len(data), 1)
        if offset + length > len(data):
            raise BadInputError("a universal file ends before its parts: build it again")
        slices.append(data[offset : offset + length])
    return slices
