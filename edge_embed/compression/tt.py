"""TT from a table that is trained already: TT-SVD (Oseledets 2011, algorithm 1; `edge_embed.compression.cores`)."""

from collections.abc import Sequence

from torch import Tensor

from edge_embed.compression import cores
from edge_embed.compression.cores import Limit
from edge_embed.compression.dense import Weight
from edge_embed.compression.processes import ALONE, Processes
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
    processes: Processes = ALONE,
) -> TTEmbedding:
    """A trainable `TTEmbedding` near to a dense table.

    One of three says how near. With ranks the error is at most sqrt(N - 1) times the least that these ranks allow. Rows
    of the cores beyond n are zero; cores have numbers of the same size.

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
            `edge_embed.compression.order`.
        processes: who shares the rows, by default this process alone; the steps after the first each makes alike.

    Returns:
        A float32 layer on the CPU.

    Raises:
        BadInputError: for impossible sizes or limits, numbers that float32 cannot hold, or an order that is none.
    """
    wanted, shapes = (rank, ratio, tolerance), (row_shape, col_shape, num_cores)
    return cores.fit(TTEmbedding, _first_ranks, weight, *wanted, padding_idx, shapes, row_order, processes)


def _first_ranks(limit: Limit, squares: Tensor) -> tuple[int, int]:
    """R_{N-1} and R_0."""
    return limit.kept(-2, squares), 1
