"""DPQ in the benchmark: random tables, the struct of the C interface, and the work of a lookup.

Operations of a row: d selections, counted as one per element. Logits of a hidden state: 2 K d for the products with all
values, and D additions a row.
"""

import ctypes

import numpy as np

from edge_embed.bench.c_types import INT32, INT64, POINTER, SIZE, array, padding, type_number
from edge_embed.bench.method import BenchMethod, Kernel
from edge_embed.bench.tables import normal
from edge_embed.packed.bits import bits_for, row_bytes
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import DPQShape


class _Table(ctypes.Structure):
    _fields_ = (
        ("codes", POINTER),
        ("codes_bytes", SIZE),
        ("values", POINTER),
        ("values_bytes", SIZE),
        ("value_scales", POINTER),
        ("value_scales_bytes", SIZE),
        ("num_embeddings", INT64),
        ("num_codes", INT64),
        ("num_groups", INT64),
        ("group_width", INT64),
        ("padding_idx", INT64),
        ("bits", INT32),
        ("shared", INT32),
        ("value_type", INT32),
        ("blocks", POINTER),
        ("blocks_bytes", SIZE),
    )


def _struct(packed: PackedDPQ) -> _Table:
    return _Table(
        *array(packed.codes),
        *array(packed.values),
        *((None, 0) if packed.value_scales is None else array(packed.value_scales)),
        packed.num_embeddings,
        packed.num_codes,
        packed.num_groups,
        packed.values.shape[2],
        padding(packed),
        packed.bits,
        packed.shape.shared,
        type_number(packed.values),
    )


class _ScaledTable(ctypes.Structure):
    _fields_ = (
        ("plain", _Table),
        ("row_scale_codes", POINTER),
        ("row_scale_codes_bytes", SIZE),
        ("row_scales", POINTER),
        ("row_scales_bytes", SIZE),
        ("num_row_scales", INT64),
        ("unused_columns", INT64),
    )


def _scaled_struct(packed: PackedDPQ) -> _ScaledTable:
    if packed.row_scale_codes is None or packed.row_scales is None:
        return _ScaledTable(_struct(packed), unused_columns=packed.unused_columns)
    scales = *array(packed.row_scale_codes), *array(packed.row_scales), len(packed.row_scales)
    return _ScaledTable(_struct(packed), *scales, packed.unused_columns)


def random_table(random: np.random.Generator, n: int, dim: int, codes: int, groups: int) -> PackedDPQ:
    """Return a random table with ``codes`` codes a group, all with the same probability.

    Raises:
        BadInputError: if the sizes make no table.
    """
    DPQShape(n, dim, codes, groups)
    values = normal(random, groups, codes, dim // groups)
    bits = bits_for(codes)
    if codes == 1 << bits and groups * bits % 8 == 0:  # every byte is valid, so codes need no packing
        return PackedDPQ(random.integers(0, 256, (n, row_bytes(groups, bits)), np.uint8), values, groups)
    return PackedDPQ.from_codes(random.integers(0, codes, (n, groups), np.uint16), values)


def _row(packed: PackedDPQ) -> tuple[float, float]:
    dim = packed.embedding_dim
    is_scaled = packed.row_scales is not None
    return dim * (1 + is_scaled), packed.row_bytes + is_scaled


def _logits(packed: PackedDPQ, batch: int) -> float:
    n, dim = packed.num_embeddings, packed.embedding_dim
    return batch * (2 * packed.num_codes * dim + n * (packed.num_groups + (packed.row_scales is not None)))


KERNEL = Kernel(1, _Table, _struct, takes=lambda shape: shape.is_plain)
SCALED_KERNEL = Kernel(4, _ScaledTable, _scaled_struct, takes=lambda shape: not shape.is_plain, tables="dpq")
DPQ = BenchMethod(("codes", "groups"), random_table, _row, _logits)
