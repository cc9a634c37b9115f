"""What a use of a table has to do at least: operations and bytes, for the roofline.

Operations of a row: DPQ d selections (one an element, so that there is something to count), ANT 2 m d, TT the products
of its chain. Bags add d for each row. Logits of a state: DPQ 2 K d for the products with all values and D additions a
row, ANT 2 A d for those with the anchors and 2 m a row, TT its cores one after the other from either end, each product
of several rows once; or, if that is less, all rows formed once for all states and 2 d a row. The largest logits: one
comparison more for each of them.

Bytes: what is stored of the rows that are asked for (of all of them for logits), inputs and results, each once.
"""

import math
from dataclasses import dataclass

from edge_embed.bench.uses import IDS_A_BAG, BenchUse, TopK
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.form import Packed
from edge_embed.packed.tt import PackedTT

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class Work:
    """Of one call."""

    operations: float
    bytes: float


def work(packed: Packed, use: BenchUse, batch: int) -> Work:
    """The least that a call of ``batch`` items takes."""
    n, dim = packed.num_embeddings, packed.embedding_dim
    if isinstance(use, TopK):
        return Work(_logits(packed, batch) + batch * n, packed.nbytes + batch * (4 * dim + 12 * use.k))
    if use.operator == "logits":
        return Work(_logits(packed, batch), packed.nbytes + 4 * batch * (dim + n))
    operations, stored = _row(packed)
    if use.operator == "bag":
        bags = max(1, batch // IDS_A_BAG)
        return Work(batch * (operations + dim), batch * (8 + stored) + bags * (8 + 4 * dim))
    return Work(batch * operations, batch * (8 + stored + 4 * dim))


def _row(packed: Packed) -> tuple[float, float]:
    """Operations, and bytes stored, of a row on average."""
    n, dim = packed.num_embeddings, packed.embedding_dim
    if isinstance(packed, PackedDPQ):
        is_scaled = packed.row_scales is not None
        return dim * (1 + is_scaled), packed.row_bytes + is_scaled
    if isinstance(packed, PackedANT):
        entry_bytes = packed.anchor_ids.itemsize + packed.weights.itemsize
        nonzeros = len(packed.weights) / n
        return 2 * nonzeros * dim, packed.row_offsets.itemsize + nonzeros * entry_bytes
    assert isinstance(packed, PackedTT)
    chain = _chain(packed.shape.row_shape, packed.shape.col_shape, packed.shape.ranks, rows=1)
    # A slice that many rows share is in a cache: what comes from memory is no more than the cores once.
    order_bytes = 0 if packed.row_order is None else packed.row_order.itemsize
    return chain, order_bytes + min(packed.nbytes / n - order_bytes, sum(core[0].nbytes for core in packed.cores))


def _logits(packed: Packed, batch: int) -> float:
    n, dim = packed.num_embeddings, packed.embedding_dim
    if isinstance(packed, PackedDPQ):
        return batch * (2 * packed.num_codes * dim + n * (packed.num_groups + (packed.row_scales is not None)))
    if isinstance(packed, PackedANT):
        return batch * (2 * packed.anchors.size + 2 * len(packed.weights))
    assert isinstance(packed, PackedTT)
    shape = packed.shape
    factors = (shape.row_shape, shape.col_shape, shape.ranks)
    turned = (shape.row_shape[::-1], shape.col_shape[::-1], shape.ranks[::-1])
    by_state = min(_contraction(*factors, n), _contraction(*turned, n))
    by_row = min(_chain(*factors, n), _chain(*turned, n))
    return min(batch * by_state, by_row + 2 * batch * n * dim)


def _chain(row_shape: Sizes, col_shape: Sizes, ranks: Sizes, rows: int) -> float:
    """Products of the first ``rows`` rows, core by core; those of equal beginnings once."""
    operations, prefixes, width = 0, min(rows, row_shape[0]), col_shape[0]
    for k in range(1, len(row_shape)):
        prefixes, width = min(rows, prefixes * row_shape[k]), width * col_shape[k]
        operations += 2 * prefixes * ranks[0] * width * ranks[k] * ranks[k + 1]
    return operations


def _contraction(row_shape: Sizes, col_shape: Sizes, ranks: Sizes, n: int) -> float:
    """Products of a state with the cores, one after the other."""
    operations, prefixes, rest = 0, 1, math.prod(col_shape)
    for k in range(len(row_shape)):
        prefixes, rest = min(n, prefixes * row_shape[k]), rest // col_shape[k]
        operations += 2 * prefixes * ranks[0] * ranks[k] * col_shape[k] * ranks[k + 1] * rest
    return operations
