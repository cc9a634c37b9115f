"""Files of named tensors for the exchange between the runner and this package (``runtime_ops/runner/tensors.h``)."""

import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper

_MAGIC = b"EETENS1\0"


def write_tensors(path: Path, tensors: Mapping[str, NDArray[Any]]) -> None:
    """Write tensors of numbers or strings (dtype object or str)."""
    with path.open("wb") as file:
        file.write(_MAGIC + struct.pack("<I", len(tensors)))
        for name, array in tensors.items():
            encoded, data = name.encode(), _data(array)
            file.write(struct.pack("<I", len(encoded)) + encoded)
            file.write(struct.pack("<II", _onnx_type(array), array.ndim) + struct.pack(f"<{array.ndim}Q", *array.shape))
            file.write(struct.pack("<Q", len(data)) + data)


def read_tensors(path: Path) -> dict[str, NDArray[Any]]:
    """Read a file of `write_tensors` or of the runner.

    Raises:
        ValueError: if the file is cut or invalid.
    """
    data = memoryview(path.read_bytes())
    at = len(_MAGIC)

    def take(size: int) -> memoryview:
        nonlocal at
        if size > len(data) - at:
            raise ValueError(f"{path}: ends at byte {len(data)}, expected {size} more after byte {at}")
        at += size
        return data[at - size : at]

    def numbers(layout: str) -> tuple[int, ...]:
        return struct.unpack(f"<{layout}", take(struct.calcsize(f"<{layout}")))

    if data[: len(_MAGIC)] != _MAGIC:
        raise ValueError(f"{path}: is not a file of tensors")
    tensors = {}
    for _ in range(*numbers("I")):
        name = bytes(take(*numbers("I"))).decode()
        kind, rank = numbers("II")
        shape = numbers(f"{rank}Q")
        try:
            tensors[name] = _array(take(*numbers("Q")), kind, shape)
        except (KeyError, OverflowError, struct.error) as error:
            raise ValueError(f"{path}: tensor {name!r:.100} of type {kind} is invalid") from error
    return tensors


def _is_text(array: NDArray[Any]) -> bool:
    return array.dtype.kind in "OU"


def _onnx_type(array: NDArray[Any]) -> int:
    return TensorProto.STRING if _is_text(array) else helper.np_dtype_to_tensor_dtype(array.dtype)


def _data(array: NDArray[Any]) -> bytes:
    if not _is_text(array):
        return array.tobytes()
    texts = [str(text).encode() for text in array.reshape(-1)]
    return b"".join(struct.pack("<Q", len(text)) + text for text in texts)


def _array(data: memoryview, kind: int, shape: tuple[int, ...]) -> NDArray[Any]:
    if kind != TensorProto.STRING:
        return np.frombuffer(data, helper.tensor_dtype_to_np_dtype(kind)).reshape(shape).copy()  # aligned, writable
    texts, at = [], 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 8], "little")
        at += 8 + length
        if at > len(data):
            raise ValueError("a text exceeds its tensor")
        texts.append(bytes(data[at - length : at]).decode())
    return np.array(texts, dtype=object).reshape(shape)
