"""A table as the output layer of a model: the exact reference for every implementation that computes logits.

logits[..., i] = sum_c hidden[..., c] row(i)[c]
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed.packed_form import PackedTable
from edge_embed.packed.segments import BLOCK_NUMBERS


def logits(table: PackedTable, hidden: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Multiply hidden states with every row, in float64 and in blocks of rows: the dense table is never materialised.

    Args:
        table: Any packed table.
        hidden: Floats [*, d].

    Returns:
        The logits, float64 [*, n], and a scale of the rounding error of other implementations: the sum of |terms| of
        each logit (of all terms of the row, times |hidden|).

    Raises:
        BadInputError: The hidden states are not floats, or their last axis is not d.
    """
    states: NDArray[Any] = np.asarray(hidden)
    dim, count = table.embedding_dim, table.num_embeddings
    if not np.issubdtype(states.dtype, np.floating) or states.ndim == 0 or states.shape[-1] != dim:
        raise BadInputError(f"hidden: got {states.dtype} {list(states.shape)}, expected floats [..., {dim}]")
    flat = states.astype(np.float64).reshape(states.size // dim, dim)  # [B, d]
    scores, magnitudes = np.empty((2, len(flat), count))
    step = max(1, BLOCK_NUMBERS // dim)
    for start in range(0, count, step):
        block = slice(start, min(start + step, count))
        ids = np.arange(block.start, block.stop)
        scores[:, block] = flat @ table.rows_float64(ids).T
        magnitudes[:, block] = np.abs(flat) @ table.magnitudes(ids).T
    shape = (*states.shape[:-1], count)
    return scores.reshape(shape), magnitudes.reshape(shape)
