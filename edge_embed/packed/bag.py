"""Bags of embeddings: the exact reference for every implementation that reduces rows as nn.EmbeddingBag does.

    sum(b) = sum_t w[t] row(ids[t])     mean(b) = sum_t row(ids[t]) / count     max(b) = max_t row(ids[t])

The positions t run from offsets[b] to offsets[b + 1] - 1. Ids equal to padding_idx are ignored: they are neither added,
nor counted, nor part of the maximum. A bag without any other id is zero.
"""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_embed.errors import BadInputError, suggested
from edge_embed.packed.ids import checked_ids
from edge_embed.packed.packed_form import PackedTable
from edge_embed.packed.segments import BLOCK_NUMBERS, blocks_of, reduce_pieces

MODES = ("sum", "mean", "max")


def bag(
    table: PackedTable, ids: ArrayLike, offsets: ArrayLike, mode: str, sample_weights: ArrayLike | None = None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Reduce the rows of each bag, in float64 and in blocks of bags.

    Args:
        table: Any packed table.
        ids: Integers [N]: all bags, one after the other.
        offsets: Integers [B + 1]: the start of each bag, and N; the first is 0, none steps back.
        mode: ``sum``, ``mean`` or ``max``.
        sample_weights: Floats [N], a factor for each row, with ``sum`` only; None for 1.

    Returns:
        The bags, float64 [B, d], and a scale of the rounding error of other implementations: for each element the sum
        of |terms| (all terms of all its rows, with the same weights), for ``max`` the largest of its rows.

    Raises:
        BadInputError: Ids, offsets, mode or weights are invalid.
        IdOutOfRangeError: An id is negative or at least n, even if its weight is zero.
    """
    ids = checked_ids(ids, table.num_embeddings)
    if ids.ndim != 1:
        raise BadInputError(f"ids: got shape {list(ids.shape)}, expected [N]: flatten them, offsets mark the bags")
    if mode not in MODES:
        hint = suggested(str(mode), MODES)
        raise BadInputError(f"mode: got {mode!r:.80}, {hint}expected one of {', '.join(MODES)}")
    starts = checked_offsets(offsets, len(ids))
    weights = _checked_weights(sample_weights, len(ids), mode)
    results = np.zeros((2, len(starts) - 1, table.embedding_dim))  # bags, magnitudes
    for block in blocks_of(np.diff(starts), max(1, BLOCK_NUMBERS // table.embedding_dim)):
        inside = slice(starts[block.start], starts[block.stop])
        kept = np.ones(len(ids[inside]), bool) if table.padding_idx is None else ids[inside] != table.padding_idx
        before = np.concatenate([[0], np.cumsum(kept)])  # ids kept before each id
        counts = np.diff(before[starts[block.start : block.stop + 1] - inside.start])
        results[:, block] = _reduced(table, ids[inside][kept], counts, mode, weights[inside][kept])
    return results[0], results[1]


def _reduced(
    table: PackedTable, ids: NDArray[np.intp], counts: NDArray[np.int64], mode: str, weights: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return bags of ``counts`` ids each, none of them padding: values and magnitudes, [2, bags, d]."""
    rows = table.rows_float64(ids) * weights[:, np.newaxis]  # [t, d]
    magnitudes = table.magnitudes(ids) * np.abs(weights[:, np.newaxis])  # [t, d]
    function = np.maximum if mode == "max" else np.add
    reduced = np.stack([reduce_pieces(function, entries, counts) for entries in (rows, magnitudes)])
    if mode == "mean":
        reduced /= np.maximum(counts, 1)[:, np.newaxis]
    return reduced


def checked_offsets(offsets: ArrayLike, num_ids: int) -> NDArray[np.int64]:
    """Check the offsets of bags.

    Args:
        offsets: [B + 1].
        num_ids: Number of ids N.

    Returns:
        The offsets as int64.

    Raises:
        BadInputError: They are not integers, not one-dimensional, step back, or do not run from 0 to N.
    """
    array: NDArray[Any] = np.asarray(offsets)
    if not np.issubdtype(array.dtype, np.integer) or array.ndim != 1 or not len(array):
        raise BadInputError(f"offsets: got {array.dtype} {list(array.shape)}, expected integers [bags + 1]")
    if array[0] != 0 or array[-1] != num_ids:
        got = f"got {array[0]} as the first and {array[-1]} as the last"
        raise BadInputError(f"offsets: {got}, expected 0 and {num_ids}, the number of ids")
    back = np.flatnonzero(array[1:] < array[:-1])
    if back.size:
        first = int(back[0])
        got = f"got {array[first + 1]} after {array[first]} at position {first + 1}"
        raise BadInputError(f"offsets: {got}, expected offsets that do not decrease")
    return array.astype(np.int64, copy=False)


def _checked_weights(sample_weights: ArrayLike | None, num_ids: int, mode: str) -> NDArray[np.float64]:
    if sample_weights is None:
        return np.ones(num_ids)
    if mode != "sum":
        raise BadInputError(
            f"sample_weights: got weights for mode {mode!r}, expected none: only mode sum supports weights"
        )
    array: NDArray[Any] = np.asarray(sample_weights)
    if not np.issubdtype(array.dtype, np.floating) or array.shape != (num_ids,):
        expected = f"expected floats [{num_ids}], one for each id"
        raise BadInputError(f"sample_weights: got {array.dtype} {list(array.shape)}, {expected}")
    return array.astype(np.float64, copy=False)
