"""Checks of the sparse transform of an ANT table: every entry is read, in blocks, before any is used."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed.segments import BLOCK_NUMBERS

CSRWeights = NDArray[np.floating[Any] | np.int8]


def check_csr(
    row_offsets: NDArray[np.int32],
    anchor_ids: NDArray[np.unsignedinteger[Any]],
    weights: CSRWeights,
    num_anchors: int,
    padding_idx: int | None,
) -> None:
    """Raise `BadInputError` unless the arrays are a valid transform.

    Args:
        row_offsets: [n + 1].
        anchor_ids: [nnz].
        weights: [nnz].
        num_anchors: Number of anchors A.
        padding_idx: The row without entries, or None.

    Raises:
        BadInputError: The message names the row, and the anchor id or weight.
    """
    _check_offsets(row_offsets, len(weights))
    for start, stop in _blocks(len(weights)):
        _check_anchor_ids(row_offsets, anchor_ids, num_anchors, start, stop)
        _check_weights(row_offsets, anchor_ids, weights, start, stop)
    if padding_idx is not None and row_offsets[padding_idx] != row_offsets[padding_idx + 1]:
        count = int(row_offsets[padding_idx + 1] - row_offsets[padding_idx])
        raise BadInputError(f"row_offsets: row {padding_idx} (padding): got {count} entries, expected none")


def _check_offsets(offsets: NDArray[np.int32], num_nonzeros: int) -> None:
    """Raise unless the first offset is 0, the last nnz, and none falls: all offsets are then in this range."""
    if offsets[0] != 0:
        raise BadInputError(f"row_offsets: row 0: got offset {offsets[0]}, expected 0")
    for start, stop in _blocks(len(offsets)):
        back = np.flatnonzero(offsets[start + 1 : stop + 1] < offsets[start : min(stop, len(offsets) - 1)])
        if back.size:
            row = start + int(back[0])
            got = f"got offsets {offsets[row]} to {offsets[row + 1]}"
            raise BadInputError(f"row_offsets: row {row}: {got}, expected offsets that do not decrease")
    if offsets[-1] != num_nonzeros:
        row, expected = len(offsets) - 2, f"expected {num_nonzeros}, the number of weights"
        raise BadInputError(f"row_offsets: row {row} (the last): got {offsets[-1]} as its end, {expected}")


def _check_anchor_ids(
    offsets: NDArray[np.int32], ids: NDArray[np.unsignedinteger[Any]], num_anchors: int, start: int, stop: int
) -> None:
    beyond = np.flatnonzero(ids[start:stop] >= num_anchors)
    if beyond.size:
        entry = start + int(beyond[0])
        got = f"got anchor id {ids[entry]} in entry {entry}"
        raise BadInputError(f"anchor_ids: row {_row_of(offsets, entry)}: {got}, expected 0 to {num_anchors - 1}")
    first = max(start, 1)
    falls = first + np.flatnonzero(ids[first:stop] <= ids[first - 1 : stop - 1])
    inside = falls[offsets[np.searchsorted(offsets, falls.astype(np.int32))] != falls]  # except at the start of a row
    if inside.size:
        entry = int(inside[0])
        got = f"got anchor id {ids[entry]} after {ids[entry - 1]} in entry {entry}"
        raise BadInputError(f"anchor_ids: row {_row_of(offsets, entry)}: {got}, expected increasing ids")


def _check_weights(
    offsets: NDArray[np.int32], ids: NDArray[np.unsignedinteger[Any]], weights: CSRWeights, start: int, stop: int
) -> None:
    block = weights[start:stop]
    wrong = np.flatnonzero(~((block > 0) & (block < np.inf)))  # NaN compares false
    if wrong.size:
        entry = start + int(wrong[0])
        place = f"row {_row_of(offsets, entry)}, anchor {ids[entry]}"
        raise BadInputError(f"weights: {place}: got {weights[entry]}, expected a positive finite number")


def _row_of(offsets: NDArray[np.int32], entry: int) -> int:
    return int(np.searchsorted(offsets, np.int32(entry), side="right")) - 1


def _blocks(count: int) -> Iterator[tuple[int, int]]:
    return ((start, min(start + BLOCK_NUMBERS, count)) for start in range(0, count, BLOCK_NUMBERS))
