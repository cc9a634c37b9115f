"""ANT in the benchmark: random tables, the struct of the C interface, and the work of a lookup.

Operations of a row: 2 m d. Logits of a hidden state: 2 A d for the products with the anchors, and 2 m a row.
"""

import ctypes

import numpy as np

from edge_embed.bench.c_types import INT32, INT64, POINTER, SIZE, array, padding, type_number
from edge_embed.bench.method import BenchMethod, Kernel
from edge_embed.bench.tables import BLOCK_ROWS, normal
from edge_embed.errors import BadInputError
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.ant_shape import ANTShape, anchor_id_type


class _Table(ctypes.Structure):
    _fields_ = (
        ("row_offsets", POINTER),
        ("row_offsets_bytes", SIZE),
        ("anchor_ids", POINTER),
        ("anchor_ids_bytes", SIZE),
        ("weights", POINTER),
        ("weights_bytes", SIZE),
        ("anchors", POINTER),
        ("anchors_bytes", SIZE),
        ("num_embeddings", INT64),
        ("num_weights", INT64),
        ("num_anchors", INT64),
        ("embedding_dim", INT64),
        ("padding_idx", INT64),
        ("weight_scale", ctypes.c_float),
        ("anchor_id_type", INT32),
        ("weight_type", INT32),
        ("anchor_type", INT32),
    )


def _struct(packed: PackedANT) -> _Table:
    return _Table(
        *array(packed.row_offsets),
        *array(packed.anchor_ids),
        *array(packed.weights),
        *array(packed.anchors),
        packed.num_embeddings,
        len(packed.weights),
        *packed.anchors.shape,
        padding(packed),
        float(packed.weight_scale[0]),
        type_number(packed.anchor_ids),
        type_number(packed.weights),
        type_number(packed.anchors),
    )


def random_table(random: np.random.Generator, n: int, dim: int, anchors: int, nonzeros: int) -> PackedANT:
    """Return a random table with ``nonzeros`` weights a row, on distinct anchors.

    Raises:
        BadInputError: if the sizes make no table.
    """
    if not 1 <= nonzeros <= anchors:
        raise BadInputError(f"nonzeros: got {nonzeros}, expected 1 to {anchors}, the number of anchors")
    ANTShape(n, dim, anchors, n * nonzeros)
    kind = np.dtype(anchor_id_type(anchors))
    chosen = np.empty((n, nonzeros), kind)
    for start in range(0, n, BLOCK_ROWS):
        keys = random.random((min(BLOCK_ROWS, n - start), anchors), np.float32)
        chosen[start : start + BLOCK_ROWS] = np.sort(keys.argpartition(nonzeros - 1, 1)[:, :nonzeros], 1)
    weights = random.random(n * nonzeros, np.float32) + np.float32(0.1)
    offsets = np.arange(0, n * nonzeros + 1, nonzeros, dtype=np.int32)
    return PackedANT(offsets, chosen.reshape(-1), weights, np.ones(1, np.float32), normal(random, anchors, dim))


def _row(packed: PackedANT) -> tuple[float, float]:
    n, dim = packed.num_embeddings, packed.embedding_dim
    entry_bytes = packed.anchor_ids.itemsize + packed.weights.itemsize
    nonzeros = len(packed.weights) / n
    return 2 * nonzeros * dim, packed.row_offsets.itemsize + nonzeros * entry_bytes


def _logits(packed: PackedANT, batch: int) -> float:
    return batch * (2 * packed.anchors.size + 2 * len(packed.weights))


KERNEL = Kernel(2, _Table, _struct)
ANT = BenchMethod(("anchors", "nonzeros"), random_table, _row, _logits)
