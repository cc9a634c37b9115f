"""DPQ from a trained table: product quantisation by k-means in each group of columns.

    minimise  sum_i w_i sum_j |E_i[j] - V_j[c_ij]|^2          E_i[j]: columns j s ... (j + 1) s of row i, s = d / D

Source: Jegou, Douze and Schmid, "Product Quantization for Nearest Neighbor Search" (IEEE TPAMI 2011).
`edge_embed.fitting.centroids` finds the centroids V. The codes c of a frozen layer keep inner products
(`edge_embed.fitting.error_feedback`); a trainable layer selects the nearest centroids itself.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.fitting import error_feedback
from edge_embed.fitting.centroids import ITERATIONS, find_centroids
from edge_embed.fitting.checkpoints import NOTHING, Kept
from edge_embed.fitting.code_assignment import packed_codes
from edge_embed.fitting.dense_table import DenseTable, Weight, row_weights, table_size
from edge_embed.fitting.processes import ALONE, Processes
from edge_embed.fitting.setting import FittingMethod, OnGroup, Setting, Types, has_room
from edge_embed.layers.arguments import checked_count
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.dpq_options import check_switch
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import DPQShape

_FAR_FROM_ONE = 30  # powers of two around 1 within which float32 holds the squares of numbers
_CODES = (4, 8, 16, 32, 64, 128, 256, 1024)  # K of DPQ
DRAFT = {"runs": 1, "iterations": 12}  # of k-means: a slightly higher error in less time
SIZES, TYPES = ("num_codes", "num_groups"), ("value_type",)


def fit(
    weight: Weight,
    num_codes: int,
    num_groups: int,
    padding_idx: int | None = None,
    *,
    counts: Tensor | None = None,
    share_subspaces: bool = False,
    rotation: Tensor | None = None,
    triangle: Tensor | None = None,
    trainable: bool = False,
    runs: int = 3,
    iterations: int = ITERATIONS,
    seed: int = 0,
    kept: Kept = NOTHING,
    on_group: OnGroup = lambda done, total: None,
    on_block: Callable[[int], None] = lambda rows: None,
    processes: Processes = ALONE,
) -> DPQEmbedding:
    """Fit a `DPQEmbedding` to a dense table by product quantisation.

    If a group has at most K different sub-vectors, they become its centroids, and its columns are reproduced exactly.
    (Sub-vectors that differ by less than 1e-7 of their length may be merged.) Otherwise k-means runs several times for
    up to 30 iterations, and the best result is used. It runs on all rows up to 131,072 or 128 K of them, and on a
    random sample of about that size for larger tables. Rows of a memory-mapped file are read in blocks. The
    columns of the sample for 16 groups and the packed codes are held in memory. The same seed gives the same layer on
    the same machine.

    Args:
        weight: [n, d] of any float dtype: array, memory-mapped or not, or tensor; it is read in blocks.
        num_codes: K, 2 to 65,536; a power of two wastes no bit.
        num_groups: D, which must divide d.
        padding_idx: this row is read as zero and stays zero.
        counts: w_i, weight of the squared error of each row, [n], at least 0, such as the frequency of each token.
            Rows of count 0 are ignored by the search for centroids and still get codes. By default all rows have the
            same weight.
        share_subspaces: whether all groups share one value table.
        rotation: orthogonal matrix R [d, d]: the rows of the layer times R approximate those of the table.
        triangle: R of `error_feedback.triangle_of`, float64 [d, d], by default of this table; the unit matrix selects
            the nearest centroids.
        trainable: return a trainable layer: VQ without a norm of distances, whose queries are the rows. In eval mode it
            has their nearest centroids. By default the layer is frozen.
        runs: number of runs of k-means, each from different first centroids; the best is used.
        iterations: largest number of iterations of a run.
        seed: random seed of the first centroids and the sample, from 0 on.
        kept: store of finished parts, by default none.
        on_group: called with the number of groups with centroids, and of all groups, before there are rows.
        on_block: called with the number of finished rows after each block.
        processes: processes that share groups and rows, by default only this one.

    Returns:
        A float32 layer on the CPU.

    Raises:
        BadInputError: for impossible sizes or counts, numbers outside float32, a trainable layer of numbers whose
            squares are outside float32.
    """
    n, dim = table_size(weight)
    layer = without_numbers(n, dim, num_codes, num_groups, share_subspaces, padding_idx)
    check_switch("trainable", trainable)
    checked_count("runs", runs)
    checked_count("iterations", iterations)
    checked_count("seed", seed, least=0)
    weights = row_weights(counts, n, layer.padding_idx)
    table = DenseTable(weight, layer.padding_idx, processes=processes, rotation=rotation)
    kept = kept.of_table(table, weights, "dpq", num_codes, num_groups, share_subspaces, runs, seed)
    scale = _scale(table, trainable)
    sizes = num_codes, num_groups, share_subspaces
    value = find_centroids(table, scale, weights, *sizes, runs, seed, kept, on_group, iterations)
    if trainable:
        return _trainable(layer, table, value, on_block)
    triangle = error_feedback.triangle_of(table, weights) if triangle is None else triangle
    codes = packed_codes(table, scale, value, num_groups, triangle, kept, on_block)
    if layer.padding_idx is not None:
        codes[layer.padding_idx] = 0
    values = (value / scale).numpy()
    return DPQEmbedding.from_packed(PackedDPQ(codes, values, num_groups, layer.padding_idx))


def without_numbers(
    num_embeddings: int,
    embedding_dim: int,
    num_codes: int,
    num_groups: int,
    share_subspaces: bool = False,
    padding_idx: int | None = None,
) -> DPQEmbedding:
    """Return the layer of a fit of these sizes, on the meta device.

    Raises:
        BadInputError: for impossible sizes.
    """
    sizes = num_embeddings, embedding_dim, num_codes, num_groups
    types: dict[str, Any] = {"device": "meta", "dtype": torch.float32}
    return DPQEmbedding(*sizes, "vq", share_subspaces, padding_idx, distance_norm=False, **types)


def _scale(table: DenseTable, trainable: bool) -> float:
    """Return a power of two that scales numbers so that float32 holds their squares; 1 for nearly all tables."""
    size = math.sqrt(table.energy / (table.num_embeddings * table.embedding_dim))
    power = round(math.log2(size)) if size else 0
    if abs(power) <= _FAR_FROM_ONE:
        return 1.0
    if trainable:
        expected = f"expected 2**-{_FAR_FROM_ONE} to 2**{_FAR_FROM_ONE}, as float32 must hold squared distances"
        remedy = f"multiply the table by 2**{-power}, or leave out trainable"
        raise BadInputError(f"weight: got numbers of size {size:.1e} to be trained, {expected}: {remedy}")
    return 2.0**-power


def _trainable(layer: DPQEmbedding, table: DenseTable, value: Tensor, on_block: Callable[[int], None]) -> DPQEmbedding:
    """Fill the layer, which has no numbers yet, with rows as queries."""
    layer.to_empty(device="cpu")
    done = 0
    with torch.no_grad():
        layer.value.copy_(value)
        for block in table.blocks(table.num_embeddings):
            layer.query[done : done + len(block)] = block
            done += len(block)
            on_block(done)
    return layer


def within(n: int, dim: int, nbytes: int, types: Types, method: str = "dpq") -> Iterator[Setting]:
    """Yield for each number of codes the setting with the most groups that fits into a number of bytes."""
    value_type = types["value_type"]
    for num_codes in _CODES:
        if num_codes > n or not has_room(num_codes, dim, nbytes, value_type):
            break
        groups = (groups for groups in range(dim, 0, -1) if dim % groups == 0)
        shapes = (DPQShape(n, dim, num_codes, each, value_type=value_type) for each in groups)
        if largest := next((shape for shape in shapes if shape.nbytes <= nbytes), None):
            options = {"num_codes": num_codes, "num_groups": largest.num_groups}
            yield Setting(method, options, {"value_type": value_type})


DPQ = FittingMethod(fit, SIZES, TYPES, within, has_groups=True, draft=DRAFT)
