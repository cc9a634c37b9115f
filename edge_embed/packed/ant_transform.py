"""Conversion of a dense transform T >= 0 to CSR, in blocks of rows; the result is allocated once, at its size.

int8 weights share one scale over the whole table:

    weight_scale = max T / 127        weights = round(T / weight_scale), half to even
"""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed.ant_shape import MAX_NONZEROS, WEIGHT_BYTES, anchor_id_type
from edge_embed.packed.floats import check_float_type
from edge_embed.packed.segments import BLOCK_NUMBERS

OnBlock = Callable[[int], None]

_LARGEST_INT8 = 127


class CSR(NamedTuple):
    """Sparse transform in the order of the packed form."""

    row_offsets: NDArray[np.int32]
    anchor_ids: NDArray[np.unsignedinteger[Any]]
    weights: NDArray[np.floating[Any] | np.int8]
    weight_scale: NDArray[np.float32]


def csr_from_dense(
    transform: NDArray[np.floating[Any]],
    padding_idx: int | None,
    weight_type: str,
    on_block: OnBlock = lambda done: None,
) -> CSR:
    """Return the nonzeros of a transform in CSR.

    Args:
        transform: Any float dtype [n, A].
        padding_idx: The row that is stored empty, whatever it holds, or None.
        weight_type: ``float32``, ``float16`` or ``int8``.
        on_block: Called with the number of stored rows after each block that was read.

    Raises:
        BadInputError: An entry is negative, not finite or too large for the dtype, or there are too many.
    """
    check_float_type("weight_type", weight_type, tuple(WEIGHT_BYTES))
    if not np.issubdtype(transform.dtype, np.floating) or 0 in transform.shape:
        raise BadInputError(f"transform: got {transform.dtype} {list(transform.shape)}, expected floats, not empty")
    largest = _checked_largest(transform, padding_idx, weight_type, on_block)
    scale = _scale(largest) if weight_type == "int8" else np.float32(1)
    offsets = _row_offsets(transform, padding_idx, weight_type, scale, on_block)
    anchor_ids = np.empty(offsets[-1], anchor_id_type(transform.shape[1]))
    weights = np.empty(offsets[-1], weight_type)
    for rows, block in _weight_blocks(transform, padding_idx, weight_type, scale):
        begin, end = offsets[rows.start], offsets[rows.stop]
        kept_rows, kept_anchors = np.nonzero(block)
        anchor_ids[begin:end] = kept_anchors
        weights[begin:end] = block[kept_rows, kept_anchors]
        on_block(rows.stop)
    return CSR(offsets, anchor_ids, weights, np.array([scale], np.float32))


def _checked_largest(
    transform: NDArray[np.floating[Any]], padding_idx: int | None, weight_type: str, on_block: OnBlock
) -> float:
    """Return the largest entry after a check that all are finite, not negative and within the dtype."""
    stored = np.float16 if weight_type == "float16" else np.float32  # the scale of int8 is float32
    most = min(float(np.finfo(stored).max), float(np.finfo(transform.dtype).max))
    largest = 0.0
    for rows, block in _blocks(transform, padding_idx):
        right = (block >= 0) & (block <= most)  # NaN compares false
        if not right.all():
            row, anchor = map(int, np.argwhere(~right)[0])
            raise BadInputError(_refusal(rows.start + row, anchor, float(block[row, anchor]), weight_type))
        largest = max(largest, float(block.max()))
        on_block(0)
    return largest


def _row_offsets(
    transform: NDArray[np.floating[Any]],
    padding_idx: int | None,
    weight_type: str,
    scale: np.float32,
    on_block: OnBlock,
) -> NDArray[np.int32]:
    """Return the start of each row's entries, counted as they will be stored."""
    offsets = np.zeros(len(transform) + 1, np.int64)
    for rows, block in _weight_blocks(transform, padding_idx, weight_type, scale):
        offsets[rows.start + 1 : rows.stop + 1] = np.count_nonzero(block, axis=1)
        on_block(0)
    np.cumsum(offsets, out=offsets)
    if offsets[-1] > MAX_NONZEROS:
        raise BadInputError(f"transform: got {offsets[-1]} nonzeros, expected at most {MAX_NONZEROS}; make it sparser")
    return offsets.astype(np.int32)


def _refusal(row: int, anchor: int, got: float, weight_type: str) -> str:
    text = f"transform: row {row}, anchor {anchor}: got {got:.9g}, expected a finite number that is not negative"
    if not np.isfinite(got):
        return f"{text}; did the training diverge?"
    if got < 0:
        return f"{text}; clamp it: transform.clamp_(min=0)"
    return f"{text} and fits the type; use a weight_type other than {weight_type}, or smaller weights"


def _scale(largest: float) -> np.float32:
    """Return the largest entry / 127, at least the smallest positive float32, because it is a divisor."""
    return max(np.float32(largest / _LARGEST_INT8), np.float32(np.finfo(np.float32).smallest_subnormal))


def _weight_blocks(
    transform: NDArray[np.floating[Any]], padding_idx: int | None, weight_type: str, scale: np.float32
) -> Iterator[tuple[slice, NDArray[np.floating[Any] | np.int8]]]:
    """Yield blocks of rows as they are stored; entries too small for the dtype are zero."""
    for rows, block in _blocks(transform, padding_idx):
        if weight_type == "int8":
            steps = np.rint(block.astype(np.float64) / np.float64(scale))
            yield rows, np.minimum(steps, _LARGEST_INT8).astype(np.int8)
        else:
            with np.errstate(under="ignore"):
                yield rows, block.astype(weight_type)


def _blocks(
    transform: NDArray[np.floating[Any]], padding_idx: int | None
) -> Iterator[tuple[slice, NDArray[np.floating[Any]]]]:
    """Yield blocks of rows, with zeros in the padding row."""
    count, anchors = transform.shape
    step = max(1, BLOCK_NUMBERS // anchors)
    for start in range(0, count, step):
        stop = min(start + step, count)
        block = transform[start:stop]
        if padding_idx is not None and start <= padding_idx < stop:
            block = block.copy()
            block[padding_idx - start] = 0
        yield slice(start, stop), block
