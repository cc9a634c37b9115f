"""TR from a trained table: TR-SVD (Zhao et al. 2016, algorithm 1; `edge_embed.fitting.cores`).

    minimise  sum_i w_i ||E_i - C_i||^2          C_i: row i of the ring, whose ranks are limited

TR-SVD approximates this minimum if all w_i are 1. `edge_embed.fitting.weighted_least_squares` adds other weights.
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
    """Fit a trainable `TREmbedding` to a dense table.

    Arguments, result and errors are those of `edge_embed.fitting.tt.fit`, with two differences. Ranks are
    R_0 ... R_{N-1}. R_{N-1} R_0 is at most I_N J_N, so these two may be smaller than requested and the ratio larger.
    For given ranks the error has no bound; the bound of ``tolerance`` holds.
    """
    wanted, shapes = (rank, ratio, tolerance), (row_shape, col_shape, num_cores)
    return cores.fit(TREmbedding, _first_ranks, weight, *wanted, padding_idx, shapes, row_order, counts, processes)


def _first_ranks(limit: Limit, squares: Tensor) -> tuple[int, int]:
    """Return R_{N-1} and R_0, whose product is the number of vectors of the first step; prefer similar sizes."""
    most = len(squares)
    if limit.ranks is not None:
        pairs = [(min(limit.ranks[-2], most // r), r) for r in range(1, min(limit.ranks[0], most) + 1)]
        return max(pairs, key=lambda pair: (pair[0] * pair[1], -abs(pair[0] - pair[1])))
    kept = limit.kept(-2, squares)
    pairs = [(-(-kept // r), r) for r in range(1, math.isqrt(kept) + 1)]
    return min(pair for pair in pairs if pair[0] * pair[1] <= most)


def fitted_ranks(pattern: TTEmbedding) -> tuple[int, ...]:
    """Return R_0 ... R_N of a fit with the ranks of a pattern, which may exceed those of the table."""
    return cores.fitted_ranks(pattern, _first_ranks)


TR = chain_method("tr", fit, TREmbedding, fitted_ranks)
