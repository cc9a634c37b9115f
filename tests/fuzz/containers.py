"""Changes of the content of containers, with lengths, offsets, checksums and hashes that are right again.

A mutant of bytes alone rarely passes the first checksum. Each function here changes a valid file into one that its
container accepts; `passes` of a reader (driver.py) counts these files.
"""

import ast
import gzip
import hashlib
import io
import json
import pickletools
import random
import struct
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
import safetensors
from driver import change_bytes, change_values
from numpy.lib import format as npy

Members = dict[str, bytes]
Change = Callable[[random.Random, bytes], bytes]

_FIELDS = (
    b"", b"x", b"1", b"-1", b"0", b"1e400", b"nan", b"inf", b"1_0", "é".encode(), b"\xff", b"\0", b"9" * 400,
    b"\xc2\xa0", b"0x1p3", b"999999999999", "\u0661".encode(), b"\r", b"\x1c",
)  # fmt: skip
_SIZES = (0, 1, -1, 2, 3, 1000, 2**31, 2**32 - 1, 2**33, 2**62, 2**63, 10**14, 10**30)
_DTYPES = ("<i8", "<i4", ">i8", "|u1", "<f4", "<f8", "|O", "<U3", "<U0", "|S0", "|V8", "<M8[s]", "|b1", "<c16", "x", "")


def unzipped(data: bytes) -> Members:
    """Return the members of a zip archive by their full names."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        return {name: file.read(name) for name in file.namelist()}


def zipped(members: Members, method: int = zipfile.ZIP_STORED) -> bytes:
    """Return an archive with right checksums."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", method) as archive:
        for name, content in members.items():
            info = zipfile.ZipInfo(name)
            info.compress_type = method
            archive.writestr(info, content)
    return file.getvalue()


def change_zip(random_: random.Random, data: bytes, change: Change, method: int = zipfile.ZIP_STORED) -> bytes:
    """Change one member, remove it, rename it, or give it the content of another."""
    members = unzipped(data)
    name = random_.choice(list(members))
    action = random_.randrange(12)
    if action == 0:
        del members[name]
    elif action == 1:
        members[name] = members[random_.choice(list(members))]
    elif action == 2:
        other = random_.choice((name + "x", name.rpartition("/")[2], "../" + name, name.upper(), "archive/data.pkl"))
        members[other] = members.pop(name)
    else:
        members[name] = change(random_, members[name])
    return zipped(members, random_.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)) if action == 3 else method)


def is_zip(data: bytes) -> bool:
    """Return whether all checksums of an archive are right."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as file:
            return file.testzip() is None
    except Exception:
        return False


def change_npy(random_: random.Random, data: bytes) -> bytes:
    """Change shape, type, order or header of an array, with the right length of the header, or change its numbers."""
    action = random_.randrange(8)
    if not data.startswith(b"\x93NUMPY") or action == 0:
        return change_bytes(random_, data)
    start = 10 + int.from_bytes(data[8:10], "little")
    header, content = ast.literal_eval(data[10:start].decode()), data[start:]
    if action == 1:
        return data[:start] + change_bytes(random_, content)
    if action < 4:
        shape = list(header["shape"]) or [1]
        shape[random_.randrange(len(shape))] = random_.choice((*_SIZES, "x", 1.5, None, True))
        header["shape"] = tuple(random_.choice((shape, shape * 40, [*shape, 1], shape[1:])))
    elif action == 4:
        header["descr"] = random_.choice((*_DTYPES, [("a", "<i8")], ("<i8", (2,)), 7, ("<i8", (10**9,))))
    elif action == 5:
        header["fortran_order"] = random_.choice((True, 1, None, "x"))
    else:
        return _npy(random_.choice((b"[" * 3000, b"(" * 90, b"{}", b"'" * 7, b"-" * 3000 + b"1", b"\xff\xfe", b"1" * 5000, b"{'descr': (((", b"\\" * 9, b"f'{x}'", b"x" * 60000)), content)  # fmt: skip  # noqa: E501
    return _npy(repr(header).encode(), content)


def _npy(header: bytes, content: bytes) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", min(len(header), 65535)) + header + content


def is_npy(data: bytes) -> bool:
    """Return whether a file starts like an array and is long enough for its header."""
    return data.startswith(npy.MAGIC_PREFIX) and len(data) >= 10 + int.from_bytes(data[8:10], "little")


def change_pickle(random_: random.Random, data: bytes) -> bytes:
    """Remove, repeat or replace opcodes of a pickle, or change their arguments; the result is a stream of opcodes."""
    try:
        at = [position for _, _, position in pickletools.genops(data)]
    except Exception:
        return change_bytes(random_, data)
    parts = [data[begin:end] for begin, end in zip(at, [*at[1:], len(data)], strict=True)]
    for _ in range(random_.choice((1, 1, 2))):
        place, action = random_.randrange(len(parts) - 1), random_.randrange(5)
        if action == 0:
            parts[place] = b""
        elif action == 1:
            parts[place] *= 2
        elif action == 2:
            parts[place] = random_.choice(parts[:-1])
        elif parts[place][:1] in b"KMJ":  # whole numbers
            parts[place] = b"J" + struct.pack("<i", random_.choice((0, 1, -1, 7, 2**31 - 1, -(2**31))))
        elif parts[place][:1] == b"X":  # texts
            text = random_.choice(
                (b"", b"x", b"cpu", b"cuda:0", b"meta", b"0", b"../0", b"weight", b"_hooks", b"forward")
            )
            parts[place] = b"X" + struct.pack("<I", len(text)) + text
    return b"".join(parts)


def change_json(random_: random.Random, data: bytes) -> bytes:
    """Change values in JSON, or replace the JSON by an unusual one."""
    if random_.random() < 0.08:
        return random_.choice(
            (b"[" * 5000, b"9" * 5000, b"{}", b"[]", b"null", b'"x"', b"1e400", b"[" * 200 + b"]" * 200)
        )
    content = [json.loads(data)]
    for _ in range(random_.choice((1, 1, 2, 4))):
        change_values(random_, content)
    return json.dumps(content[0] if content else None).encode("utf-8", "replace")


def is_json(data: bytes) -> bool:
    """Return whether the data is JSON."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def change_member(random_: random.Random, data: bytes) -> bytes:
    """Change a member of an archive in a way that fits its format."""
    if data.startswith(b"\x93NUMPY"):
        return change_npy(random_, data)
    if data.startswith(b"PK"):
        return change_zip(random_, data, change_member)
    if data.startswith(b"\x80"):
        return change_pickle(random_, data)
    if data[:1] == b"{" and is_json(data):
        return change_json(random_, data)
    return change_bytes(random_, data) if data else b"x"


def change_safetensors(random_: random.Random, data: bytes, metadata: Change = change_json) -> bytes:
    """Change a tensor, with right length and offsets, or an entry of the header."""
    (length,) = struct.unpack_from("<Q", data)
    header, content = json.loads(data[8 : 8 + length]), data[8 + length :]
    about, entries = header.pop("__metadata__", None), list(header.items())
    tensors = {name: content[slice(*entry["data_offsets"])] for name, entry in entries}
    name, entry = random_.choice(entries)
    action = random_.randrange(8)
    if action == 0:
        tensors[name] = change_bytes(random_, tensors[name]) if tensors[name] else b""
        _fit(entry, tensors[name])
    elif action == 1:
        tensors[name] = random_.randbytes(len(tensors[name]))
    elif action == 2:
        size = random_.choice((0, 1, 3, 64))
        tensors[name], entry["dtype"], entry["shape"] = bytes(size * 4), "F32", random_.choice(([size], [size, 1], [1, size], [1, 1, size]))  # fmt: skip  # noqa: E501
    elif action == 3:
        entry["dtype"], _ = random_.choice((("I8", 1), ("U8", 1), ("BOOL", 1), ("F8_E4M3", 1))), None
        entry["dtype"] = entry["dtype"][0]
        entry["shape"] = [len(tensors[name])]
    elif action == 4:
        header[random_.choice(("x", "", "embeddings", "mapping", "weights", "\ud800", "x/y/z", "\x1b[2J"))] = (
            header.pop(name)
        )
        tensors = {other: tensors.get(other, tensors[name]) for other in header}
    elif action == 5 and len(header) > 1:
        del header[name]
    elif about:
        key = random_.choice(list(about))
        about[key] = (metadata if is_json(about[key].encode()) else change_bytes)(random_, about[key].encode()).decode("utf-8", "replace")  # fmt: skip  # noqa: E501
    else:
        entry["shape"] = entry["shape"][::-1]
    return _safetensors(about, header, tensors)


def _fit(entry: dict[str, Any], content: bytes) -> None:
    width = {"F32": 4, "F16": 2, "BF16": 2, "U16": 2, "I32": 4, "U32": 4, "I64": 8}.get(entry["dtype"], 1)
    if len(content) % width:
        entry["dtype"], width = "U8", 1
    entry["shape"] = [len(content) // width]


def _safetensors(about: dict[str, str] | None, header: dict[str, Any], tensors: Members) -> bytes:
    at, blocks = 0, []
    for name, entry in header.items():
        entry["data_offsets"] = [at, at + len(tensors[name])]
        blocks.append(tensors[name])
        at += len(tensors[name])
    text = json.dumps({**({"__metadata__": about} if about else {}), **header}).encode("utf-8", "replace")
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(blocks)


def is_safetensors(data: bytes) -> bool:
    """Return whether the safetensors library accepts a file."""
    try:
        safetensors.deserialize(data)
    except Exception:
        return False
    return True


def hashed_again(data: bytes, key: str = "edge_embed") -> bytes:
    """Return a file of packed tables with right hashes of its tensors and of its manifest."""
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    try:
        manifest = json.loads(header["__metadata__"][key])
        for table, entry in manifest["tables"].items():
            for tensor in entry["sha256"]:
                begin, end = header[f"{table}/{tensor}"]["data_offsets"]
                entry["sha256"][tensor] = hashlib.sha256(data[8 + length + begin : 8 + length + end]).hexdigest()
        manifest["sha256"] = hashlib.sha256(_canonical(manifest["tables"])).hexdigest()
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError):
        return data
    header["__metadata__"][key] = _canonical(manifest).decode()
    text = json.dumps(header).encode("utf-8", "replace")
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def _canonical(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()


def change_gzip(random_: random.Random, data: bytes, change: Change) -> bytes:
    """Change the content of a gzip file, with the checksum of the new content."""
    return gzip.compress(change(random_, gzip.decompress(data)), 1, mtime=0)


def is_gzip(data: bytes) -> bool:
    """Return whether a stream can be decompressed and its checksum is right."""
    try:
        gzip.decompress(data)
    except Exception:
        return False
    return True


def change_lines(random_: random.Random, data: bytes) -> bytes:
    """Remove, repeat or change lines and fields of a text, which remains a text of lines."""
    lines = data.split(b"\n")
    for _ in range(random_.choice((1, 1, 3))):
        at, action = random_.randrange(len(lines)), random_.randrange(5)
        if action == 0:
            lines.insert(at, lines[random_.randrange(len(lines))])
        elif action == 1 and len(lines) > 2:
            del lines[at]
        else:
            fields = lines[at].split(b" ")
            where = random_.randrange(len(fields))
            fields[where] = random_.choice(_FIELDS)
            lines[at] = b" ".join(fields)
    return b"\n".join(lines)


def change_numbers(random_: random.Random, data: bytes, layouts: dict[int, str]) -> bytes:
    """Change one or two numbers of a binary header.

    Args:
        random_: source of random numbers.
        data: the file.
        layouts: formats of `struct`, by the offsets of the numbers.
    """
    changed = bytearray(data)
    for at, layout in random_.sample(list(layouts.items()), random_.choice((1, 1, 2))):
        (value,) = struct.unpack_from(layout, changed, at)
        size = 8 * struct.calcsize(layout)
        other = random_.choice((0, 1, -1, 2, value + 1, value - 1, value * 2, 2**31 - 1, -(2**31), 2 ** (size - 1) - 1))
        try:
            struct.pack_into(layout, changed, at, other)
        except struct.error:
            struct.pack_into(layout, changed, at, 0)
    return bytes(changed)


def saved_array(array: Any) -> bytes:
    """Return an array as a ``.npy`` file."""
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()
