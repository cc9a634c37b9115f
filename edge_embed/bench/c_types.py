"""Types of arrays and numbers in the C interface."""

import ctypes
from typing import Any

from numpy.typing import NDArray

from edge_embed.packed.packed_form import PackedTable

POINTER, SIZE, INT64, INT32 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int32
_TYPES = ("float32", "float16", "int8", "uint8", "uint16", "uint32")  # in the order of kernels/type.h


def array(content: NDArray[Any]) -> tuple[int, int]:
    """Return address and bytes of an array, which has to live as long as they are used."""
    return content.ctypes.data, content.nbytes


def type_number(content: NDArray[Any]) -> int:
    """Return the number of an array's type."""
    return _TYPES.index(str(content.dtype))


def padding(packed: PackedTable) -> int:
    """Return the padding row; -1 if there is none."""
    return -1 if packed.padding_idx is None else packed.padding_idx


def buffer(nbytes: int) -> Any:
    """Return memory of at least ``nbytes`` bytes, aligned for doubles."""
    return (ctypes.c_double * -(-nbytes // 8))()
