"""Scales of rows: a row is the row of its table times one of a few numbers.

    row(id) = row_scales[row_scale_codes[id]] * plain_row(id)            in float32, rounded once

Product-quantised tables store the lengths of their rows as scales (fastText's quantised norms), and integer rows store
their step. There are at most 256 scales: one byte a row selects one.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed.arrays import check_finite
from edge_embed.packed.sizes import check_count

MAX_ROW_SCALES = 256


def check_num_row_scales(count: object) -> None:
    """Raise `BadInputError` for more scales than one byte a row can select.

    Raises:
        BadInputError: The message gives the number.
    """
    check_count("num_row_scales", count, least=0, most=MAX_ROW_SCALES)


def check_row_scales(row_scales: NDArray[np.float32], largest: float) -> None:
    """Raise `BadInputError` for scales that make rows not finite.

    Args:
        row_scales: float32 [S].
        largest: Largest |number| of a row before it is scaled.

    Raises:
        BadInputError: A scale is too large, or below zero, which would turn the zeros of a padding row into -0.0. The
            message names the scale.
    """
    check_finite("row_scales", row_scales, ("scale",))
    if np.signbit(row_scales).any():
        scale = int(np.signbit(row_scales).argmax())
        raise BadInputError(f"row_scales: scale {scale}: got {row_scales[scale]}, expected no number below zero")
    with np.errstate(over="ignore"):
        sound = np.isfinite(np.float32(largest) * row_scales)
    if not sound.all():
        scale = int(sound.argmin())
        raise BadInputError(
            f"row_scales: scale {scale}: got {row_scales[scale]}, expected a number that is finite times the largest "
            f"value, {largest:g}"
        )


def check_row_scale_codes(codes: NDArray[np.uint8], num_row_scales: int, padding_idx: int | None) -> None:
    """Check the scale codes of all rows.

    Raises:
        BadInputError: A code is ``num_row_scales`` or more, or that of the padding row is not zero. The message names
            the row.
    """
    if codes.max() >= num_row_scales:
        row = int((codes >= num_row_scales).argmax())
        raise BadInputError(f"row_scale_codes: row {row}: got {codes[row]}, expected less than {num_row_scales}")
    if padding_idx is not None and codes[padding_idx]:
        raise BadInputError(f"row_scale_codes: row {padding_idx} (padding): expected zero")


def scaled_rows(rows: NDArray[Any], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return rows [*, d] times their scales [*]."""
    wide: NDArray[np.float32] = rows.astype(np.float32) * scales[..., np.newaxis]
    return wide
