"""The benchmark's own library in C++ (runtime_ops/bench/bench.h): row copies, kernels in a loop, roofs of a machine."""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.bench.c_types import POINTER, SIZE, buffer
from edge_embed.bench.method import Kernel
from edge_embed.methods import Parts
from edge_embed.packed.packed_form import PackedTable
from edge_embed.runtime.library import get_library_path, installed_library

KERNELS: Parts[Kernel] = Parts("kernels")
_LINE = 64
_READ_AT_ONCE = 1024


@cache
def library() -> ctypes.CDLL:
    """The benchmark's library.

    Raises:
        EdgeEmbedError: if it is not there, or this system cannot load it.
    """
    loaded = installed_library("edge_embed_bench")
    loaded.eb_copy_rows.argtypes = [POINTER, SIZE, POINTER, SIZE, SIZE, POINTER]
    loaded.eb_copy_rows.restype = None
    loaded.eb_gather.argtypes = [POINTER, POINTER, POINTER, SIZE, SIZE, POINTER, SIZE]
    loaded.eb_gather_with.argtypes = [POINTER, POINTER, POINTER, SIZE, SIZE, POINTER, SIZE, POINTER, SIZE]
    loaded.eb_read.argtypes, loaded.eb_read.restype = [POINTER, SIZE, SIZE], ctypes.c_float
    loaded.eb_multiply_add.argtypes, loaded.eb_multiply_add.restype = [SIZE], ctypes.c_double
    return loaded


@cache
def operators() -> ctypes.CDLL:
    """The operator library, for its C interface."""
    loaded = ctypes.CDLL(str(get_library_path()))
    loaded.ee_isa.restype = ctypes.c_char_p
    return loaded


def kernel_isa() -> str:
    """The instruction set whose kernels run here."""
    return bytes(operators().ee_isa()).decode()


class Gather:
    """The kernel that looks rows up in a table, called several times in a row without Python between the calls."""

    def __init__(self, packed: PackedTable, memory_bytes: int = 0) -> None:
        """Make the kernel ready; cores of TT are multiplied in advance within ``memory_bytes``."""
        self._packed = packed  # the struct points into it
        kernel = KERNELS[packed.method]
        self._struct = kernel.struct(packed)
        self._prepared = kernel.prepare(self._struct, memory_bytes) if kernel.prepare else None
        self._table = ctypes.pointer(self._struct)
        self._function = ctypes.cast(getattr(operators(), f"ee_{packed.method}_gather_f32_i64"), POINTER)
        self._scratch = self._scratch_buffer() if kernel.needs_scratch else None

    def __call__(self, ids: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        """Look up ``ids`` [calls, B], each call into the same ``rows`` [B, d]."""
        calls, batch = ids.shape
        arguments = (self._function, self._table, ids.ctypes.data, batch, calls, rows.ctypes.data, rows.nbytes)
        if self._scratch is None:
            status = library().eb_gather(*arguments)
        else:
            status = library().eb_gather_with(*arguments, self._scratch, ctypes.sizeof(self._scratch))
        if status:
            raise RuntimeError(f"ee_{self._packed.method}_gather_f32_i64 gave status {status}")

    def _scratch_buffer(self) -> Any:
        size = ctypes.c_size_t()
        status = getattr(operators(), f"ee_{self._packed.method}_scratch_bytes")(self._table, ctypes.byref(size))
        if status:
            raise RuntimeError(f"ee_{self._packed.method}_scratch_bytes gave status {status}")
        return buffer(size.value)


class Memory:
    """Bytes that are read from end to end.

    Attributes:
        nbytes: how many, rounded up to what the library reads at once.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = -(-nbytes // _READ_AT_ONCE) * _READ_AT_ONCE
        # Ones, because pages that nobody wrote are all the same page of zeros, and that one is in a cache.
        self._buffer = np.ones(self.nbytes + _LINE, np.uint8)
        self._address = self._buffer.ctypes.data + -self._buffer.ctypes.data % _LINE

    def read(self, times: int) -> float:
        """Read all of them so many times; gives a number that depends on them."""
        return float(library().eb_read(self._address, self.nbytes, times))


def copy_rows(table: NDArray[np.float32], ids: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
    """Copy rows of a dense table, ``ids`` [calls, B], each call into the same ``rows`` [B, d]; lines are prefetched."""
    calls, batch = ids.shape
    library().eb_copy_rows(table.ctypes.data, table.shape[1], ids.ctypes.data, batch, calls, rows.ctypes.data)
