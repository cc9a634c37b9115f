"""Stored tensors of an archive, as views of the mapped file."""

import json
import math
from typing import Any

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.program.archive import Archive

# ScalarType numbers of torch's export schema, for the supported dtypes of weights and graph values.
DTYPES = {
    1: torch.uint8,
    2: torch.int8,
    3: torch.int16,
    4: torch.int32,
    5: torch.int64,
    6: torch.float16,
    7: torch.float32,
    8: torch.float64,
    12: torch.bool,
    13: torch.bfloat16,
    28: torch.uint16,
    34: torch.uint32,
}
# Names of unsupported types, for messages.
_OTHER_TYPES = {9: "complex32", 10: "complex64", 11: "complex128", 14: "quint8", 15: "qint8", 16: "qint32",
                29: "float8_e4m3fn", 30: "float8_e5m2", 31: "float8_e4m3fnuz", 32: "float8_e5m2fnuz",
                33: "float8_e8m0fnu"}  # fmt: skip
_STRIDED = 7
_MAX_RANK = 64
# An expanded tensor (stride 0) is larger than its stored bytes, as masks are. A file of a few bytes that would take
# gigabytes once an operator copies it is refused.
MAX_EXPANDED_BYTES = 64 << 20


def read_tensors(archive: Archive, folder: str, config: str) -> dict[str, Tensor]:
    """Return all tensors that ``<folder>/<config>`` lists, by their names in the model.

    Two names of one stored tensor (a shared or tied weight) give the same object.
    """
    entries = archive.read_json(f"{folder}/{config}").get("config")
    if not isinstance(entries, dict):
        raise archive.damaged(f"{folder}/{config} contains no tensors")
    tensors: dict[str, Tensor] = {}
    found: dict[str, Tensor] = {}
    for name, entry in entries.items():
        if entry.get("use_pickle") is not False:
            raise BadInputError(
                f"{archive.path}: weight {name!r:.200} is stored as a pickle, which can run code: refused; save the "
                "model with edge_embed.save"
            )
        meta, member = entry["tensor_meta"], f"{folder}/{entry['path_name']}"
        identity = json.dumps([member, {**meta, "requires_grad": None}], sort_keys=True)
        if identity not in tensors:
            tensors[identity] = _view(archive, name, member, meta)
        found[name] = tensors[identity]
    return found


def _view(archive: Archive, name: str, member: str, meta: dict[str, Any]) -> Tensor:
    dtype = DTYPES.get(meta["dtype"])
    if dtype is None or meta["layout"] != _STRIDED:
        got = (
            f"of layout {meta['layout']!r:.20}"
            if dtype
            else _OTHER_TYPES.get(meta["dtype"], f"type {meta['dtype']!r:.20}")
        )
        raise BadInputError(
            f"{archive.path}: weight {name!r:.200} is {got}, expected a dense tensor of integers or real numbers: "
            "convert it before saving the model; store complex numbers as two real tensors"
        )
    sizes, strides = ([_size(archive, name, size) for size in meta[key]] for key in ("sizes", "strides"))
    offset = _size(archive, name, meta["storage_offset"])
    if len(sizes) != len(strides) or len(sizes) > _MAX_RANK:
        raise archive.damaged(f"weight {name!r:.200} has {len(sizes)} sizes and {len(strides)} strides")
    begin, length = archive.span(member) if member in archive else (0, -1)
    needed = 0
    if 0 not in sizes:
        last = offset + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        needed = (last + 1) * dtype.itemsize
    if length < needed:
        raise archive.damaged(f"weight {name!r:.200}: got {max(length, 0)} bytes in {member:.200}, expected {needed}")
    _check_expansion(archive, name, sizes, dtype.itemsize, length)
    if needed == 0:
        return torch.empty(sizes, dtype=dtype)
    buffer: Any = memoryview(archive.content)[begin : begin + length // dtype.itemsize * dtype.itemsize]
    if begin % dtype.itemsize or buffer.readonly:
        buffer = bytearray(buffer)
    return torch.frombuffer(buffer, dtype=dtype).as_strided(sizes, strides, offset)


def _check_expansion(archive: Archive, name: str, sizes: list[int], itemsize: int, stored: int) -> None:
    size = math.prod(max(size, 1) for size in sizes) * itemsize
    if size > max(stored, MAX_EXPANDED_BYTES):
        raise archive.damaged(f"weight {name!r:.200} expands {stored} stored bytes to {size} bytes")


def _size(archive: Archive, name: str, value: Any) -> int:
    size = value.get("as_int") if isinstance(value, dict) else None
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 2**63:
        raise archive.damaged(f"weight {name!r:.200} has an invalid size {value!r:.80}")
    return size
