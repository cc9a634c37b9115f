"""Scales of rows: a row is what its table says, times one of a few numbers.

    row(id) = row_scales[row_scale_codes[id]] * plain_row(id)            in float32, rounded once

So product-quantised tables keep the lengths of their rows apart (fastText's quantised norms), and integer rows what
one step of theirs is worth. At most 256 scales: a byte a row says which.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed.arrays import check_finite
from edge_embed.packed.sizes import check_count

MAX_ROW_SCALES = 256


def check_num_row_scales(count: object) -> None:
    """Refuse a number of scales that one byte a row cannot tell apart.

    Raises:
        BadInputError: It gives the number.
    """
    check_count("num_row_scales", count, least=0, most=MAX_ROW_SCALES)


def check_row_scales(row_scales: NDArray[np.float32], largest: float) -> None:
    """Refuse scales of which rows would not be finite.

    Args:
        row_scales: float32 [S].
        largest: The largest |number| of a row before it is scaled.

    Raises:
        BadInputError: One is below zero, which would make the zeros of a padding row -0.0, or too large; it says which.
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
    """Read the whole table.

    Raises:
        BadInputError: A code is ``num_row_scales`` or more, or that of the padding row is not zero; it names the row.
    """
    if codes.max() >= num_row_scales:
        row = int((codes >= num_row_scales).argmax())
        raise BadInputError(f"row_scale_codes: row {row}: got {codes[row]}, expected less than {num_row_scales}")
    if padding_idx is not None and codes[padding_idx]:
        raise BadInputError(f"row_scale_codes: row {padding_idx} (padding): expected zero")


def scaled_rows(rows: NDArray[Any], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """Rows [*, d] times their scales [*]."""
    wide: NDArray[np.float32] = rows.astype(np.float32) * scales[..., np.newaxis]
    return wide
