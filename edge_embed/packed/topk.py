"""Top-k: the exact reference for every implementation that finds the largest logits.

values[*, j], ids[*, j] = the j-th largest of logits[*, i] + bias[i], and its i; the lowest i first among equal ones
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed.floats import rounded
from edge_embed.packed.logits import logits
from edge_embed.packed.packed_form import PackedTable

MAX_K = 1000
"""Largest k that can be requested."""


def check_k(k: object, num_embeddings: int) -> None:
    """Raise `BadInputError` unless ``k`` is an integer from 1 to 1000, and at most the number of rows."""
    most = min(MAX_K, num_embeddings)
    if not isinstance(k, int) or isinstance(k, bool) or not 1 <= k <= most:
        why = "the largest possible" if most == MAX_K else "the rows of the table"
        raise BadInputError(f"k: got {k!r:.80}, expected a constant integer from 1 to {most}, {why}")


def topk(
    table: PackedTable, hidden: ArrayLike, k: int, bias: ArrayLike | None = None
) -> tuple[NDArray[np.floating[Any]], NDArray[np.int64]]:
    """Return the largest logits of each hidden state in descending order, the lowest id first among equal ones.

    Args:
        table: Any packed table.
        hidden: Floats [*, d].
        k: Number of logits, 1 to 1000 and at most n.
        bias: Floats [n] in the dtype of ``hidden``, added to the logits; None for no bias.

    Returns:
        The values [*, k] in the dtype of ``hidden``, and the ids, int64 [*, k]. Each logit is exact and rounded once,
        and once more with its bias.

    Raises:
        BadInputError: ``k``, the hidden states or the bias are invalid.
    """
    check_k(k, table.num_embeddings)
    states: NDArray[Any] = np.asarray(hidden)
    scores = rounded(logits(table, states)[0], str(states.dtype))  # [*, n]
    if bias is not None:
        scores = scores + _checked_bias(bias, states.dtype, table.num_embeddings)
    ids = np.argsort(-scores, axis=-1, kind="stable")[..., :k].astype(np.int64)  # [*, k]
    return np.take_along_axis(scores, ids, axis=-1), ids


def _checked_bias(bias: ArrayLike, dtype: np.dtype[Any], num_embeddings: int) -> NDArray[np.floating[Any]]:
    array: NDArray[Any] = np.asarray(bias)
    if array.dtype != dtype or array.shape != (num_embeddings,):
        raise BadInputError(f"bias: got {array.dtype} {list(array.shape)}, expected {dtype} [{num_embeddings}]")
    return array
