"""C++ library of the benchmark (runtime_ops/bench/bench.h): row copies, kernels in a loop, roofs of a machine."""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.bench.c_table import table_of
from edge_embed.bench.c_types import INT32, INT64, POINTER, SIZE, buffer
from edge_embed.exporters.onnx.session_memory.method import session_bytes
from edge_embed.packed.packed_form import PackedTable
from edge_embed.runtime.library import get_library_path, installed_library

_LINE = 64
_READ_AT_ONCE = 1024
_GATHER = 0  # number in ee_use


@cache
def library() -> ctypes.CDLL:
    """Return the benchmark's library.

    Raises:
        EdgeEmbedError: if it is missing, or this system cannot load it.
    """
    loaded = installed_library("edge_embed_bench")
    loaded.eb_copy_rows.argtypes = [POINTER, SIZE, POINTER, SIZE, SIZE, POINTER]
    loaded.eb_copy_rows.restype = None
    loaded.eb_gather.argtypes = [POINTER, POINTER, POINTER, SIZE, SIZE, POINTER, SIZE, POINTER, SIZE]
    loaded.eb_read.argtypes, loaded.eb_read.restype = [POINTER, SIZE, SIZE], ctypes.c_float
    loaded.eb_multiply_add.argtypes, loaded.eb_multiply_add.restype = [SIZE], ctypes.c_double
    return loaded


@cache
def operators() -> ctypes.CDLL:
    """Return the operator library, for its C interface."""
    loaded = ctypes.CDLL(str(get_library_path()))
    loaded.ee_isa.restype = loaded.ee_status_message.restype = ctypes.c_char_p
    loaded.ee_scratch_bytes.argtypes = [POINTER, INT32, INT64, POINTER]
    loaded.ee_prepare_bytes.argtypes = [POINTER, SIZE, POINTER, POINTER]
    loaded.ee_prepare.argtypes = [POINTER, POINTER, SIZE, POINTER, SIZE, POINTER]
    return loaded


def kernel_isa() -> str:
    """Return the instruction set whose kernels run here."""
    return bytes(operators().ee_isa()).decode()


def check(function: str, status: int) -> None:
    """Raise `RuntimeError` for a status that is not EE_OK."""
    if status:
        raise RuntimeError(f"{function}: status {status}: {operators().ee_status_message(status).decode()}")


def prepared_bytes(table: Any, most: int) -> tuple[int, int]:
    """Return the bytes that `prepare` stores for a table within ``most``, and the bytes of its scratch buffer."""
    size, scratch_size = SIZE(), SIZE()
    this = ctypes.byref(table)
    status = operators().ee_prepare_bytes(this, most, ctypes.byref(size), ctypes.byref(scratch_size))
    check("ee_prepare_bytes", status)
    return size.value, scratch_size.value


def prepare(table: Any, most: int) -> Any:
    """Prepack a table within ``most`` bytes, if possible; return the memory, which the caller must keep."""
    size, scratch_size = prepared_bytes(table, most)
    memory, scratch, this = buffer(size), buffer(scratch_size), ctypes.byref(table)
    check("ee_prepare", operators().ee_prepare(this, memory, size, scratch, scratch_size, this))
    return memory


class Gather:
    """Kernel that looks up rows of a table, called several times in a row without Python between the calls."""

    def __init__(self, packed: PackedTable, memory_bytes: int = 0) -> None:
        """Prepare the kernel, and prepack the table within ``memory_bytes``."""
        self._packed = packed  # the struct points into it
        self._struct = table_of(packed)
        self._prepared = prepare(self._struct, session_bytes(packed.method, packed.shape, "rows", memory_bytes))
        self._table = ctypes.pointer(self._struct)
        self._function = ctypes.cast(operators().ee_gather, POINTER)
        self._scratch = self._scratch_buffer()

    def __call__(self, ids: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        """Look up ``ids`` [calls, B], each call into the same ``rows`` [B, d]."""
        calls, batch = ids.shape
        sizes = (ids.ctypes.data, batch, calls, rows.ctypes.data, rows.nbytes)
        scratch = (self._scratch, ctypes.sizeof(self._scratch))
        check("ee_gather", library().eb_gather(self._function, self._table, *sizes, *scratch))

    def _scratch_buffer(self) -> Any:
        size = SIZE()
        status = operators().ee_scratch_bytes(self._table, _GATHER, 0, ctypes.byref(size))
        check("ee_scratch_bytes", status)
        return buffer(size.value)


class Memory:
    """Bytes that are read from end to end.

    Attributes:
        nbytes: number of bytes, rounded up to the block that the library reads at once.
    """

    def __init__(self, nbytes: int) -> None:
        self.nbytes = -(-nbytes // _READ_AT_ONCE) * _READ_AT_ONCE
        # Ones, because all unwritten pages are the same page of zeros, which stays in a cache.
        self._buffer = np.ones(self.nbytes + _LINE, np.uint8)
        self._address = self._buffer.ctypes.data + -self._buffer.ctypes.data % _LINE

    def read(self, times: int) -> float:
        """Read all bytes ``times`` times; return a number that depends on them."""
        return float(library().eb_read(self._address, self.nbytes, times))


def copy_rows(table: NDArray[np.float32], ids: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
    """Copy rows of a dense table, ``ids`` [calls, B], each call into the same ``rows`` [B, d]; lines are prefetched."""
    calls, batch = ids.shape
    library().eb_copy_rows(table.ctypes.data, table.shape[1], ids.ctypes.data, batch, calls, rows.ctypes.data)
