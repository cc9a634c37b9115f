"""TT from a table that is trained already: TT-SVD (Oseledets 2011, algorithm 1; `edge_embed.fitting.cores`).

    minimise  sum_i w_i ||E_i - C_i||^2          C_i: row i of the train, whose ranks are limited

As near as TT-SVD comes to that where all w_i are 1; others are taken in by `edge_embed.fitting.weighted_least_squares`.
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
    """A trainable `TTEmbedding` near to a dense table.

    One of three says how near. With ranks the error is at most sqrt(N - 1) times the least that these ranks allow, and
    rows of the cores beyond n are zero; both only without counts. Cores have numbers of the same size.

    Args:
        weight: [n, d] of any float type: array, memory-mapped or not, or tensor; it is read in blocks.
        rank: R_1 ... R_{N-1} or one for all, as of `TTEmbedding`; less where the table has less.
        row_shape: as of `TTEmbedding`, and so are the next two.
        col_shape: factors of d.
        num_cores: N.
        padding_idx: this row is taken as zero, whatever it holds, and stays so.
        ratio: in place of ``rank``, as of `TTEmbedding`.
        tolerance: in place of ``rank``: the smallest ranks, step by step, with which ||E - weight|| is at most this
            times ||weight|| (Frobenius); 1e-5 to below 1.
        row_order: as of `TTEmbedding`: the cores are fitted to the rows in this order, such as one of
            `edge_embed.fitting.order`.
        counts: w_i, what the squared error of each row counts: numbers >= 0 [n] by id, how often each token comes up,
            for example; with ``rank`` or ``ratio``. By default all rows count the same. Rows that count little may come
            out farther from theirs than zero is.
        processes: who shares the rows, by default this process alone; the steps after the first each makes alike.

    Returns:
        A float32 layer on the CPU.

    Raises:
        BadInputError: for impossible sizes, limits or counts, numbers that float32 cannot hold, an order that is none,
            or counts with a tolerance.
    """
    wanted, shapes = (rank, ratio, tolerance), (row_shape, col_shape, num_cores)
    return cores.fit(TTEmbedding, _first_ranks, weight, *wanted, padding_idx, shapes, row_order, counts, processes)


def _first_ranks(limit: Limit, squares: Tensor) -> tuple[int, int]:
    """R_{N-1} and R_0."""
    return limit.kept(-2, squares), 1


def fitted_ranks(pattern: TTEmbedding) -> tuple[int, ...]:
    """R_0 ... R_N of a fit with the ranks of a pattern, which may have more than the table has."""
    return cores.fitted_ranks(pattern, _first_ranks)


TT = chain_method("tt", fit, TTEmbedding, fitted_ranks)
