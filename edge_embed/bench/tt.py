"""TT in the benchmark: random tables, the struct of the C interface, and the work of a lookup.

Operations of a row: the products of its chain. Logits of a hidden state: its products with the cores one after the
other from either end, each product that several rows share counted once. If it is less, all rows are formed once for
all hidden states, and 2 d a row are added.
"""

import ctypes
import math

import numpy as np

from edge_embed.bench.c_types import INT32, INT64, POINTER, SIZE, array, padding, type_number
from edge_embed.bench.method import BenchMethod, Kernel
from edge_embed.bench.tables import normal
from edge_embed.layers.tt import TTEmbedding
from edge_embed.packed.tt import PackedTT
from edge_embed.packed.tt_shape import MAX_CORES

Sizes = tuple[int, ...]


class _Core(ctypes.Structure):
    _fields_ = (
        ("data", POINTER),
        ("bytes", SIZE),
        ("rows", INT64),
        ("rank_in", INT64),
        ("columns", INT64),
        ("rank_out", INT64),
    )


class _Table(ctypes.Structure):
    _fields_ = (
        ("cores", _Core * MAX_CORES),
        ("num_cores", INT64),
        ("num_embeddings", INT64),
        ("padding_idx", INT64),
        ("core_type", INT32),
    )


def _struct(packed: PackedTT) -> _Table:
    cores = (_Core * MAX_CORES)(*(_Core(*array(core), *core.shape) for core in packed.cores))
    return _Table(cores, len(packed.cores), packed.num_embeddings, padding(packed), type_number(packed.cores[0]))


def random_table(random: np.random.Generator, n: int, dim: int, rank: int) -> PackedTT:
    """Return a random table with the shapes that the layer chooses.

    Raises:
        BadInputError: if the sizes make no table.
    """
    layer = TTEmbedding(n, dim, rank, device="meta")
    return PackedTT(tuple(normal(random, *core.shape) for core in layer.cores), n)


def _row(packed: PackedTT) -> tuple[float, float]:
    n = packed.num_embeddings
    chain = _chain(packed.shape.row_shape, packed.shape.col_shape, packed.shape.ranks, rows=1)
    # A slice that many rows share is in a cache, so memory traffic is at most the cores once.
    order_bytes = 0 if packed.row_order is None else packed.row_order.itemsize
    return chain, order_bytes + min(packed.nbytes / n - order_bytes, sum(core[0].nbytes for core in packed.cores))


def _logits(packed: PackedTT, batch: int) -> float:
    n, dim = packed.num_embeddings, packed.embedding_dim
    shape = packed.shape
    factors = (shape.row_shape, shape.col_shape, shape.ranks)
    reversed_order = (shape.row_shape[::-1], shape.col_shape[::-1], shape.ranks[::-1])
    by_state = min(_contraction(*factors, n), _contraction(*reversed_order, n))
    by_row = min(_chain(*factors, n), _chain(*reversed_order, n))
    return min(batch * by_state, by_row + 2 * batch * n * dim)


def _chain(row_shape: Sizes, col_shape: Sizes, ranks: Sizes, rows: int) -> float:
    """Count products of the first ``rows`` rows, core by core; equal prefixes count once."""
    operations, prefixes, width = 0, min(rows, row_shape[0]), col_shape[0]
    for k in range(1, len(row_shape)):
        prefixes, width = min(rows, prefixes * row_shape[k]), width * col_shape[k]
        operations += 2 * prefixes * ranks[0] * width * ranks[k] * ranks[k + 1]
    return operations


def _contraction(row_shape: Sizes, col_shape: Sizes, ranks: Sizes, n: int) -> float:
    """Count products of a hidden state with the cores, one after the other."""
    operations, prefixes, rest = 0, 1, math.prod(col_shape)
    for k in range(len(row_shape)):
        prefixes, rest = min(n, prefixes * row_shape[k]), rest // col_shape[k]
        operations += 2 * prefixes * ranks[0] * ranks[k] * col_shape[k] * ranks[k + 1] * rest
    return operations


KERNEL = Kernel(3, _Table, _struct)
TT = BenchMethod(("rank",), random_table, _row, _logits)
