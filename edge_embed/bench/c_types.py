"""Arrays and numbers as the C interface takes them."""

import ctypes
from typing import Any

from numpy.typing import NDArray

from edge_embed.packed.packed_form import PackedTable

POINTER, SIZE, INT64, INT32 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int32
_TYPES = ("float32", "float16", "int8", "uint8", "uint16", "uint32")  # as numbered in kernels/type.h


def array(content: NDArray[Any]) -> tuple[int, int]:
    """Address and bytes of an array, which has to live as long as they are used."""
    return content.ctypes.data, content.nbytes


def type_number(content: NDArray[Any]) -> int:
    """The number of the type of an array."""
    return _TYPES.index(str(content.dtype))


def padding(packed: PackedTable) -> int:
    """The padding row; -1 where there is none."""
    return -1 if packed.padding_idx is None else packed.padding_idx


def buffer(nbytes: int) -> Any:
    """Memory of at least so many bytes, for doubles."""
    return (ctypes.c_double * -(-nbytes // 8))()
