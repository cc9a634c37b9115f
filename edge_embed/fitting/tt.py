"""TT from a trained table: TT-SVD (Oseledets 2011, algorithm 1; `edge_embed.fitting.cores`).

    minimise  sum_i w_i ||E_i - C_i||^2          C_i: row i of the train, whose ranks are limited

TT-SVD approximates this minimum if all w_i are 1. `edge_embed.fitting.weighted_least_squares` adds other weights.
"""

from collections.abc import Sequence

from torch import Tensor

from edge_embed.fitting import cores
from edge_embed.fitting.core_settings import chain_method
from edge_embed.fitting.cores import Limit
from edge_embed.fitting.dense_table import Weight
from edge_embed.fitting.processes import ALONE, Processes
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
) -> TTEmbedding:
    """Fit a trainable `TTEmbedding` to a dense table.

    Give one of ``rank``, ``ratio`` and ``tolerance``. With ranks and without counts, the error is at most sqrt(N - 1)
    times the lowest error of these ranks, and rows of the cores beyond n are zero. All cores have numbers of similar
    size.

    Args:
        weight: [n, d] of any float dtype: array, memory-mapped or not, or tensor; it is read in blocks.
        rank: R_1 ... R_{N-1} or one for all, as for `TTEmbedding`; smaller if the table has a smaller rank.
        row_shape: I_1 ... I_N, as for `TTEmbedding`.
        col_shape: J_1 ... J_N, as for `TTEmbedding`.
        num_cores: N, as for `TTEmbedding`.
        padding_idx: this row is read as zero and stays zero.
        ratio: alternative to ``rank``, as for `TTEmbedding`.
        tolerance: alternative to ``rank``: selects step by step the smallest ranks with ||E - weight|| at most this
            times ||weight|| (Frobenius norm); 1e-5 to below 1.
        row_order: as for `TTEmbedding`: the cores are fitted to the rows in this order, such as one from
            `edge_embed.fitting.order`.
        counts: w_i, weight of the squared error of each row, numbers >= 0 [n] by id, such as the frequency of each
            token; only with ``rank`` or ``ratio``. By default all rows have the same weight. Rows with a small weight
            may get an error above that of a zero row.
        processes: processes that share the rows of the first step, by default only this one; all repeat the later
            steps.

    Returns:
        A float32 layer on the CPU.

    Raises:
        BadInputError: for impossible sizes, limits or counts, numbers outside float32, an order that is not a
            permutation, or counts with a tolerance.
    """
    wanted, shapes = (rank, ratio, tolerance), (row_shape, col_shape, num_cores)
    return cores.fit(TTEmbedding, _first_ranks, weight, *wanted, padding_idx, shapes, row_order, counts, processes)


def _first_ranks(limit: Limit, squares: Tensor) -> tuple[int, int]:
    """Return R_{N-1} and R_0."""
    return limit.kept(-2, squares), 1


def fitted_ranks(pattern: TTEmbedding) -> tuple[int, ...]:
    """Return R_0 ... R_N of a fit with the ranks of a pattern, which may exceed those of the table."""
    return cores.fitted_ranks(pattern, _first_ranks)


TT = chain_method("tt", fit, TTEmbedding, fitted_ranks)
