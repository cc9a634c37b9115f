"""Low rank from a trained table, as a tensor train of two cores, G_1 [n, R] and G_2 [R, d].

    minimise  sum_i w_i^(1/2) ||E_i - E_i V V^T||^2          G_1 = E V          G_2 = V^T

V holds the first R eigenvectors of sum_i w_i^(1/2) E_i^T E_i [d, d]. All rows share its directions: with weights of w_i
itself, the frequency, a few frequent rows would take most of them. This gives the nearest matrix of rank R by that sum
(Eckart and Young, "The Approximation of One Matrix by Another of Lower Rank", Psychometrika 1936).

With the directions L of the next layer (`edge_embed.fitting.next_layer`), E K takes the place of E, and V^T K^-1 that
of V^T. K K^T = L L^T + a share of the identity: directions that it does not read come last, and none is lost.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from edge_embed.fitting.core_settings import SIZES, TYPES, decomposition
from edge_embed.fitting.cores import balanced
from edge_embed.fitting.dense_table import DenseTable, Weight, moments, row_weights, table_size
from edge_embed.fitting.processes import ALONE, Processes
from edge_embed.fitting.setting import FittingMethod, Setting, Types
from edge_embed.layers.arguments import checked_count, checked_padding
from edge_embed.layers.tt import TTEmbedding
from edge_embed.packed.floats import FLOAT_BYTES

_OTHERS = 1e-6  # share of the identity


def fit(
    weight: Weight,
    rank: int,
    padding_idx: int | None = None,
    *,
    counts: Tensor | None = None,
    directions: Tensor | None = None,
    processes: Processes = ALONE,
) -> TTEmbedding:
    """Fit a trainable `TTEmbedding` of two cores: the matrix of this rank that is nearest to a dense table.

    Args:
        weight: [n, d] of any float dtype: array, memory-mapped or not, or tensor; it is read in blocks.
        rank: R; limited to n and d.
        padding_idx: this row is read as zero and stays zero.
        counts: w_i, frequency of each row, numbers >= 0 [n]; its square root weighs the squared error of the row. By
            default all rows have the same weight.
        directions: L of the next layer, float64 [d, d], or None.
        processes: processes that share the rows, by default only this one.

    Returns:
        A float32 layer on the CPU.

    Raises:
        BadInputError: for impossible sizes or counts, or numbers outside float32.
    """
    n, dim = table_size(weight)
    checked_count("rank", rank)
    padding_idx = checked_padding(padding_idx, n)
    table = DenseTable(weight, padding_idx, processes=processes)
    weights = row_weights(counts, n, padding_idx).sqrt()
    product, _, _ = moments(table, weights)
    root = None if directions is None else _invertible(directions)  # K
    turned = product if root is None else root.T @ product @ root
    vectors = torch.linalg.eigh(turned).eigenvectors[:, -min(rank, n, dim) :]  # of the largest eigenvalues, [d, R]
    into, back = vectors, vectors.T
    if root is not None:
        into, back = root @ vectors, torch.linalg.solve(root, vectors.T, left=False)
    rows = torch.cat(list(processes.each(list(table.places(n)), lambda place: table.block(place) @ into)))  # [n, R]
    cores = balanced([rows[:, None, None, :], back[None, :, :, None]])
    return TTEmbedding.from_cores([core.float() for core in cores], n, padding_idx)


def _invertible(directions: Tensor) -> Tensor:
    """Return K [d, d] of directions L [d, d]."""
    dim = len(directions)
    product = directions @ directions.T
    others = _OTHERS * product.trace() / dim * torch.eye(dim, dtype=product.dtype)
    found: Tensor = torch.linalg.cholesky(product + others)
    return found


def _within(n: int, dim: int, nbytes: int, types: Types) -> Iterator[Setting]:
    value_type = types["value_type"]
    rank = nbytes // (FLOAT_BYTES[value_type] * (n + dim))
    if rank:
        yield Setting("low_rank", {"rank": min(rank, n, dim)}, {"value_type": value_type})


# All tables of a file have the same number of cores: two, or three.
LOW_RANK = FittingMethod(decomposition(fit), SIZES, TYPES, _within, by_directions=True, not_beside=("tt", "tr"))
