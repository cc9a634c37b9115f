"""The safetensors container, as much of it as packed tables use.

    8 bytes    header length N, little-endian
    N bytes    JSON, then spaces: {"__metadata__": {key: text}, name: {"dtype", "shape", "data_offsets"}, ...}
    the rest   the tensors, little-endian, without gaps

Own code, because our reader must refuse every damage with an error of ours, and our writer must not copy the
tables. Every other safetensors reader takes these files too.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from io import BufferedReader
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed.form import TensorSpec
from edge_embed.packed.strict_json import exact_keys, parse

MAX_HEADER_BYTES = 16 << 20
_DTYPE_CODES = {"uint8": "U8", "float32": "F32"}


class StoredTensor(NamedTuple):
    """Where a tensor lies: dtype code of safetensors, shape, first and last + 1 byte after the header."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


class Header(NamedTuple):
    """A checked header: the tensors tile the rest of the file."""

    metadata: dict[str, str]
    tensors: dict[str, StoredTensor]
    data_start: int


def write(file: BinaryIO, tensors: Mapping[str, NDArray[Any]], metadata: Mapping[str, str]) -> None:
    """Write a container; the widest dtypes come first, so that each tensor is aligned to its own items."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    names = sorted(tensors, key=lambda name: (-tensors[name].itemsize, name))
    offset = 0
    for name in names:
        array = tensors[name]
        header[name] = {
            "dtype": _DTYPE_CODES[array.dtype.name],
            "shape": list(array.shape),
            "data_offsets": [offset, offset + array.nbytes],
        }
        offset += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER_BYTES:
        raise BadInputError(
            f"header: {len(text)} bytes, expected at most {MAX_HEADER_BYTES}; save fewer tables"
        )
    file.write(len(text).to_bytes(8, "little") + text)
    for name in names:
        file.write(little_endian(tensors[name]).data)


def read_header(file: BufferedReader, file_size: int) -> Header:
    """Read and check the header.

    Raises:
        BadInputError: It is damaged, or does not account for every byte of the file.
    """
    length = int.from_bytes(file.read(8), "little")
    if file_size < 8 or length > file_size - 8:
        sizes = f"got {file_size} bytes, expected at least {length + 8} as the first 8 say"
        raise BadInputError(f"is truncated or no safetensors file: {sizes}")
    if length > MAX_HEADER_BYTES:
        raise BadInputError(f"header of {length} bytes, expected at most {MAX_HEADER_BYTES}")
    content = parse(file.read(length))
    if not isinstance(content, dict):
        raise BadInputError("header is no JSON object")
    metadata = _metadata(content.pop("__metadata__", {}))
    tensors = {name: _stored_tensor(name, entry) for name, entry in content.items()}
    _check_tiling(tensors, file_size - 8 - length)
    return Header(metadata, tensors, 8 + length)


def check_tensor(stored: StoredTensor, spec: TensorSpec) -> None:
    """Refuse a tensor whose dtype, shape or byte count is not what the form needs."""
    code = _DTYPE_CODES[spec.dtype]
    if (stored.dtype, stored.shape) != (code, spec.shape):
        expected = f"expected {code} {list(spec.shape)} as the manifest has it"
        raise BadInputError(f"got {stored.dtype!r:.80} {list(stored.shape)}, {expected}")
    nbytes = math.prod(spec.shape) * np.dtype(spec.dtype).itemsize
    if stored.end - stored.start != nbytes:
        raise BadInputError(f"got {stored.end - stored.start} bytes, expected {nbytes}")


def read_tensor(
    file: BufferedReader, header: Header, name: str, spec: TensorSpec
) -> tuple[NDArray[Any], str]:
    """Read a tensor that passed :func:`check_tensor` and the SHA-256 of its bytes, as they were read."""
    file.seek(header.data_start + header.tensors[name].start)
    array: NDArray[Any] = np.empty(spec.shape, np.dtype(spec.dtype).newbyteorder("<"))
    if file.readinto(array.data.cast("B")) != array.nbytes:
        raise BadInputError("ends early: the file became shorter while it was read")
    return array.astype(spec.dtype, copy=False), sha256(array)


def sha256(array: NDArray[Any]) -> str:
    """Hash the bytes of a tensor as they are stored: little-endian, C order."""
    return hashlib.sha256(little_endian(array).data).hexdigest()


def little_endian(array: NDArray[Any]) -> NDArray[Any]:
    """The array as it is stored; the same array where it is so already."""
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<"))


def _metadata(entry: Any) -> dict[str, str]:
    if not isinstance(entry, dict) or not all(isinstance(text, str) for text in entry.values()):
        raise BadInputError(f"header: __metadata__: got {entry!r:.80}, expected an object of texts")
    return entry


def _stored_tensor(name: str, entry: Any) -> StoredTensor:
    entry = exact_keys(entry, {"dtype", "shape", "data_offsets"}, f"header: tensor {name!r}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str) or not _is_sizes(shape) or not _is_sizes(offsets) or len(offsets) != 2:
        expected = "expected a dtype, a shape and two offsets"
        raise BadInputError(f"header: tensor {name!r}: got {entry!r:.200}, {expected}")
    return StoredTensor(dtype, tuple(shape), *offsets)


def _is_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(type(item) is int for item in value)


def _check_tiling(tensors: Mapping[str, StoredTensor], data_size: int) -> None:
    """Every byte belongs to exactly one tensor: no overlap, no hiding place, no missing end."""
    position = 0
    for name, stored in sorted(tensors.items(), key=lambda item: item[1][2:]):
        if stored.start != position or stored.end < stored.start:
            got = f"got bytes {stored.start} to {stored.end}"
            raise BadInputError(f"header: tensor {name!r}: {got}, expected to start at {position}")
        position = stored.end
    if position != data_size:
        raise BadInputError(
            f"got {data_size} bytes of tensors, expected {position}: the file was cut or added to"
        )
