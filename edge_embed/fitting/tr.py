"""TR from a table that is trained already: TR-SVD (Zhao et al. 2016, algorithm 1; `edge_embed.fitting.cores`).

    minimise  sum_i w_i ||E_i - C_i||^2          C_i: row i of the ring, whose ranks are limited

As near as TR-SVD comes to that where all w_i are 1; others are taken in by `edge_embed.fitting.weighted_least_squares`.
"""

import math
from collections.abc import Sequence

from torch import Tensor

from edge_embed.fitting import cores
from edge_embed.fitting.core_settings import chain_method
from edge_embed.fitting.cores import Limit
from edge_embed.fitting.dense_table import Weight
from edge_embed.fitting.processes import ALONE, Processes
from edge_embed.layers.tr import TREmbedding
from edge_embed.layers.tt import TTEmbedding


def fit(
    weight: Weight,
    rank: int | Sequence[int] | None = None,
    row_shape: Sequence[int] | None = None,
    col_shape: Sequence[int] | None = None,
    num_cores: int | None = None,
    padding_idx: int | None = None,
    *,
    ratio: float | None = None,
    tolerance: float | None = None,
    row_order: Tensor | None = None,
    counts: Tensor | None = None,
    processes: Processes = ALONE,
) -> TREmbedding:
    """A trainable `TREmbedding` near to a dense table.

    Arguments, result and errors are those of `edge_embed.fitting.tt.fit`, with two differences. Ranks are
    R_0 ... R_{N-1}; as R_{N-1} R_0 is at most I_N J_N, these two may come out smaller, and the ratio larger. And
    nothing bounds the error of given ranks; the bound of ``tolerance`` holds.
    """
    wanted, shapes = (rank, ratio, tolerance), (row_shape, col_shape, num_cores)
    return cores.fit(TREmbedding, _first_ranks, weight, *wanted, padding_idx, shapes, row_order, counts, processes)


def _first_ranks(limit: Limit, squares: Tensor) -> tuple[int, int]:
    """R_{N-1} and R_0; their product is what the first step keeps. Of equal ones those nearest to one another."""
    most = len(squares)
    if limit.ranks is not None:
        pairs = [(min(limit.ranks[-2], most // r), r) for r in range(1, min(limit.ranks[0], most) + 1)]
        return max(pairs, key=lambda pair: (pair[0] * pair[1], -abs(pair[0] - pair[1])))
    kept = limit.kept(-2, squares)
    pairs = [(-(-kept // r), r) for r in range(1, math.isqrt(kept) + 1)]
    return min(pair for pair in pairs if pair[0] * pair[1] <= most)


def fitted_ranks(pattern: TTEmbedding) -> tuple[int, ...]:
    """R_0 ... R_N of a fit with the ranks of a pattern, which may have more than the table has."""
    return cores.fitted_ranks(pattern, _first_ranks)


TR = chain_method("tr", fit, TREmbedding, fitted_ranks)
