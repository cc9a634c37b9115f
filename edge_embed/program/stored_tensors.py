"""Tensors of a ``torch.save`` file as views of its bytes, from their description in its pickle."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.program.archive_weights import DTYPES, MAX_EXPANDED_BYTES
from edge_embed.program.inert_pickle import Inert, Items, Named, Rebuild

_MOST_TENSORS = 1 << 18
_MOST_RANK = 64
_NAMED_DTYPES = {str(dtype): dtype for dtype in (*DTYPES.values(), torch.complex64, torch.complex128, torch.uint64)}
_STORAGES = {
    "ByteStorage": torch.uint8,
    "CharStorage": torch.int8,
    "ShortStorage": torch.int16,
    "IntStorage": torch.int32,
    "LongStorage": torch.int64,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "FloatStorage": torch.float32,
    "DoubleStorage": torch.float64,
    "BoolStorage": torch.bool,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
    "UntypedStorage": torch.uint8,
}
_NUMPY_KINDS = "fiub"


@dataclass(frozen=True)
class StoredBytes:
    """Bytes of one storage.

    Attributes:
        content: writable bytes, such as a private map of the file.
        dtype: dtype of its class; uint8 for an untyped storage.
        is_big_endian: whether the numbers are big-endian.
        made: tensors of all numbers, by dtype.
    """

    content: memoryview
    dtype: torch.dtype
    is_big_endian: bool = False
    made: dict[torch.dtype, Tensor] = field(default_factory=dict)

    def numbers(self, dtype: torch.dtype) -> Tensor:
        """Return all numbers, flat, the same tensor for each call; copied only if unaligned or byte-swapped."""
        if dtype not in self.made:
            self.made[dtype] = self._numbers(dtype)
        return self.made[dtype]

    def _numbers(self, dtype: torch.dtype) -> Tensor:
        count = len(self.content) // dtype.itemsize
        if not count:
            return torch.empty(0, dtype=dtype)
        content: Any = self.content[: count * dtype.itemsize]
        if self.is_big_endian and dtype.itemsize > 1:
            part = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
            content = bytearray(np.frombuffer(content, f"u{part}").byteswap().tobytes())
        elif content.readonly or np.frombuffer(content, np.uint8).ctypes.data % dtype.itemsize:
            content = bytearray(content)
        return torch.frombuffer(content, dtype=dtype)


def storage_dtype(named: Any) -> torch.dtype | None:
    """Return the dtype of the numbers in a storage class; None for an unknown class."""
    return _STORAGES.get(named.name.rpartition(".")[2]) if isinstance(named, Named) else None


class Tensors:
    """Rebuilds the tensors that a pickle describes.

    Args:
        most_bytes: bytes of the file, the maximum for an expanded tensor.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = max(most_bytes, MAX_EXPANDED_BYTES)
        self._count = 0

    @property
    def rebuild(self) -> Mapping[str, Rebuild]:
        """Replacements of torch's functions."""
        return {
            "torch._utils._rebuild_tensor": self._typed,
            "torch._utils._rebuild_tensor_v2": self._typed,
            "torch._utils._rebuild_tensor_v3": self._untyped,
            "torch._utils._rebuild_parameter": _first,
            "torch._utils._rebuild_parameter_with_state": _first,
            "torch._tensor._rebuild_from_type_v2": self._of_class,
            "torch.Size": _first,
        }

    def _typed(self, storage: Any, offset: Any, size: Any, stride: Any, *_: Any) -> Any:
        if not isinstance(storage, StoredBytes):
            return Inert("torch.Tensor")
        return self._view(storage, storage.dtype, offset, size, stride)

    def _untyped(
        self, storage: Any, offset: Any, size: Any, stride: Any, grad: Any, hooks: Any, dtype: Any, *_: Any
    ) -> Any:
        known = _NAMED_DTYPES.get(dtype.name) if isinstance(dtype, Named) else None
        if not isinstance(storage, StoredBytes) or known is None:
            return Inert("torch.Tensor", (dtype,))
        return self._view(storage, known, offset, size, stride)

    def _of_class(self, rebuild: Any, kind: Any, arguments: Any, *_: Any) -> Any:
        """Rebuild a tensor with attributes, or of its own class, as a plain tensor."""
        function: Callable[..., Any] | None = self.rebuild.get(rebuild.name) if isinstance(rebuild, Named) else None
        # Nested ones could recurse as deep as the file requests.
        is_plain = function not in (None, self._of_class) and isinstance(arguments, tuple)
        return function(*arguments) if function is not None and is_plain else Inert("torch.Tensor")

    def _view(self, storage: StoredBytes, dtype: torch.dtype, offset: Any, size: Any, stride: Any) -> Tensor:
        self._count += 1
        if self._count > _MOST_TENSORS:
            raise ValueError(f"it contains more than {_MOST_TENSORS} tensors")
        if not (isinstance(size, tuple) and isinstance(stride, tuple) and len(size) == len(stride) <= _MOST_RANK):
            raise ValueError("a tensor has no valid sizes and strides")
        if not all(type(number) is int and 0 <= number < 1 << 62 for number in (offset, *size, *stride)):
            raise ValueError("a tensor has an invalid size")
        if 0 in size:
            return torch.empty(size, dtype=dtype)
        end = offset + sum((count - 1) * step for count, step in zip(size, stride, strict=True)) + 1
        if end * dtype.itemsize > len(storage.content):
            raise ValueError(f"a tensor requires {end * dtype.itemsize} bytes, but {len(storage.content)} are stored")
        if math.prod(size) * dtype.itemsize > self._most_bytes:
            raise ValueError(f"a tensor expands {len(storage.content)} stored bytes to {list(size)}")
        return storage.numbers(dtype).as_strided(size, stride, offset)


def array_tensor(value: Any, numbers: dict[tuple[int, str], NDArray[Any]]) -> Tensor | None:
    """Return the tensor of a pickled numpy array of plain numbers, or None for anything else.

    Args:
        value: value of a pickle.
        numbers: arrays by bytes and dtype: arrays over the same bytes are copied once.
    """
    if not isinstance(value, Inert) or value.name not in _ARRAYS:
        return None
    parts = _ARRAYS[value.name](value)
    if parts is None:
        return None
    shape, described, order, content = parts
    dtype = _numpy_dtype(described)
    whole = isinstance(shape, tuple) and all(type(size) is int and 0 < size < 1 << 62 for size in shape)
    if dtype is None or not isinstance(content, bytes | bytearray) or not whole or len(shape) > _MOST_RANK:
        return None
    if math.prod(shape) * dtype.itemsize != len(content):
        return None
    key = id(content), dtype.str
    if key not in numbers:
        numbers[key] = np.frombuffer(content, dtype).astype(dtype.newbyteorder("="))
    return torch.from_numpy(numbers[key].reshape(shape, order="F" if order in (True, "F") else "C"))


def _from_state(value: Inert) -> tuple[Any, ...] | None:
    """Return shape, dtype, order and bytes of an array, as protocols below 5 write it."""
    return value.state[1:] if isinstance(value.state, tuple) and len(value.state) == 5 else None


def _from_arguments(value: Inert) -> tuple[Any, ...] | None:
    """Return shape, dtype, order and bytes of an array, as protocol 5 writes it."""
    if len(value.arguments) != 4:
        return None
    content, described, shape, order = value.arguments
    return shape, described, order, content


_ARRAYS: dict[str, Callable[[Inert], tuple[Any, ...] | None]] = {
    "numpy.core.multiarray._reconstruct": _from_state,
    "numpy._core.multiarray._reconstruct": _from_state,
    "numpy.core.numeric._frombuffer": _from_arguments,
    "numpy._core.numeric._frombuffer": _from_arguments,
}


def _numpy_dtype(described: Any) -> np.dtype[Any] | None:
    """Return the dtype of ``numpy.dtype('f4')`` with its state, whose second item is the byte order."""
    if not isinstance(described, Inert) or described.name != "numpy.dtype" or not described.arguments:
        return None
    spelled = described.arguments[0]
    state = described.state if isinstance(described.state, tuple) else ()
    order = state[1] if len(state) > 1 and state[1] in ("<", ">") else "="
    known = isinstance(spelled, str) and spelled[:1] in _NUMPY_KINDS and spelled[1:] in ("1", "2", "4", "8")
    return np.dtype(f"{order}{spelled}") if known and spelled != "f1" else None


def kind_of(value: Any) -> str:
    """Return the kind of a value in words, for a list of unused content."""
    if isinstance(value, Inert):
        return "numpy array" if value.name in _ARRAYS else value.name
    if isinstance(value, Named):
        return value.name
    return "dict" if isinstance(value, Items) else "tensor" if isinstance(value, Tensor) else type(value).__name__


def unread_tensor(value: Any) -> str | None:
    """Return the kind of a tensor that is not read, in words; None for anything else."""
    if not isinstance(value, Inert):
        return None
    if value.name != "torch.Tensor":
        return _UNREAD.get(value.name)
    known = bool(value.arguments) and isinstance(value.arguments[0], Named)
    return value.arguments[0].name if known else "of unknown type"


_UNREAD = {
    "torch._utils._rebuild_meta_tensor_no_storage": "on the meta device, without numbers",
    "torch._utils._rebuild_nested_tensor": "nested",
    "torch._utils._rebuild_qtensor": "quantised",
    "torch._utils._rebuild_sparse_tensor": "sparse",
    "torch._utils._rebuild_wrapper_subclass": "of another class",
}


def _first(value: Any = None, *_: Any) -> Any:
    return value
