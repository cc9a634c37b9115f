"""The benchmark's own library in C++ (runtime_ops/bench/bench.h): row copies, kernels in a loop, roofs of a machine."""

import ctypes
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.packed.ant import PackedANT
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.form import Packed
from edge_embed.packed.tt import PackedTT
from edge_embed.runtime.library import get_library_path, installed_library

_POINTER, _SIZE, _INT64, _INT32 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int64, ctypes.c_int32
_TYPES = ("float32", "float16", "int8", "uint8", "uint16", "uint32")  # as numbered in kernels/type.h
_MAX_CORES = 6
_LINE = 64
_READ_AT_ONCE = 1024


class _DPQTable(ctypes.Structure):
    _fields_ = (
        ("codes", _POINTER),
        ("codes_bytes", _SIZE),
        ("values", _POINTER),
        ("values_bytes", _SIZE),
        ("value_scales", _POINTER),
        ("value_scales_bytes", _SIZE),
        ("num_embeddings", _INT64),
        ("num_codes", _INT64),
        ("num_groups", _INT64),
        ("group_width", _INT64),
        ("padding_idx", _INT64),
        ("bits", _INT32),
        ("shared", _INT32),
        ("value_type", _INT32),
        ("blocks", _POINTER),
        ("blocks_bytes", _SIZE),
    )


class _ANTTable(ctypes.Structure):
    _fields_ = (
        ("row_offsets", _POINTER),
        ("row_offsets_bytes", _SIZE),
        ("anchor_ids", _POINTER),
        ("anchor_ids_bytes", _SIZE),
        ("weights", _POINTER),
        ("weights_bytes", _SIZE),
        ("anchors", _POINTER),
        ("anchors_bytes", _SIZE),
        ("num_embeddings", _INT64),
        ("num_weights", _INT64),
        ("num_anchors", _INT64),
        ("embedding_dim", _INT64),
        ("padding_idx", _INT64),
        ("weight_scale", ctypes.c_float),
        ("anchor_id_type", _INT32),
        ("weight_type", _INT32),
        ("anchor_type", _INT32),
    )


class _Core(ctypes.Structure):
    _fields_ = (
        ("data", _POINTER),
        ("bytes", _SIZE),
        ("rows", _INT64),
        ("rank_in", _INT64),
        ("columns", _INT64),
        ("rank_out", _INT64),
    )


class _TTTable(ctypes.Structure):
    _fields_ = (
        ("cores", _Core * _MAX_CORES),
        ("num_cores", _INT64),
        ("num_embeddings", _INT64),
        ("padding_idx", _INT64),
        ("core_type", _INT32),
    )


@cache
def library() -> ctypes.CDLL:
    """The benchmark's library.

    Raises:
        EdgeEmbedError: if it is not there, or this system cannot load it.
    """
    loaded = installed_library("edge_embed_bench")
    loaded.eb_copy_rows.argtypes = [_POINTER, _SIZE, _POINTER, _SIZE, _SIZE, _POINTER]
    loaded.eb_copy_rows.restype = None
    loaded.eb_gather.argtypes = [_POINTER, _POINTER, _POINTER, _SIZE, _SIZE, _POINTER, _SIZE]
    loaded.eb_gather_with.argtypes = [_POINTER, _POINTER, _POINTER, _SIZE, _SIZE, _POINTER, _SIZE, _POINTER, _SIZE]
    loaded.eb_read.argtypes, loaded.eb_read.restype = [_POINTER, _SIZE, _SIZE], ctypes.c_float
    loaded.eb_multiply_add.argtypes, loaded.eb_multiply_add.restype = [_SIZE], ctypes.c_double
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

    def __init__(self, packed: Packed, memory_bytes: int = 0) -> None:
        """Make the kernel ready; cores of TT are multiplied in advance within ``memory_bytes``."""
        self._packed = packed  # the struct points into it
        self._struct = _struct(packed)
        self._merged = _merge(self._struct, memory_bytes) if isinstance(self._struct, _TTTable) else None
        self._table = ctypes.pointer(self._struct)
        self._function = ctypes.cast(getattr(operators(), f"ee_{packed.method}_gather_f32_i64"), _POINTER)
        self._scratch = None if packed.method == "dpq" else self._scratch_buffer()

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
        return _buffer(size.value)


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


def _struct(packed: Packed) -> ctypes.Structure:
    padding_idx = -1 if packed.padding_idx is None else packed.padding_idx
    if isinstance(packed, PackedDPQ):
        return _DPQTable(
            *_array(packed.codes),
            *_array(packed.values),
            *((None, 0) if packed.value_scales is None else _array(packed.value_scales)),
            packed.num_embeddings,
            packed.num_codes,
            packed.num_groups,
            packed.values.shape[2],
            padding_idx,
            packed.bits,
            packed.shape.shared,
            _type(packed.values),
        )
    if isinstance(packed, PackedANT):
        return _ANTTable(
            *_array(packed.row_offsets),
            *_array(packed.anchor_ids),
            *_array(packed.weights),
            *_array(packed.anchors),
            packed.num_embeddings,
            len(packed.weights),
            *packed.anchors.shape,
            padding_idx,
            float(packed.weight_scale[0]),
            _type(packed.anchor_ids),
            _type(packed.weights),
            _type(packed.anchors),
        )
    assert isinstance(packed, PackedTT)
    cores = (_Core * _MAX_CORES)(*(_Core(*_array(core), *core.shape) for core in packed.cores))
    return _TTTable(cores, len(packed.cores), packed.num_embeddings, padding_idx, _type(packed.cores[0]))


def _merge(table: _TTTable, most_bytes: int) -> Any:
    """Use cores multiplied in advance where that saves products; gives the memory that holds them."""
    size, scratch_size = ctypes.c_size_t(), ctypes.c_size_t()
    this = ctypes.byref(table)
    status = operators().ee_tt_merge_bytes(this, _SIZE(most_bytes), ctypes.byref(size), ctypes.byref(scratch_size))
    memory, scratch = _buffer(size.value), _buffer(scratch_size.value)
    if not status and size.value:
        status = operators().ee_tt_merge(this, memory, size, scratch, scratch_size, this)
    if status:
        raise RuntimeError(f"ee_tt_merge gave status {status}")
    return memory


def _buffer(nbytes: int) -> Any:
    return (ctypes.c_double * -(-nbytes // 8))()


def _array(array: NDArray[Any]) -> tuple[int, int]:
    return array.ctypes.data, array.nbytes


def _type(array: NDArray[Any]) -> int:
    return _TYPES.index(str(array.dtype))
