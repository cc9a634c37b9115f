"""int8 values of a DPQ table, with one scale for each value table.

value_scale = max |values| / 127        stored = round(values / value_scale), half to even
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed.arrays import check_finite

_LARGEST_INT8 = 127
_AXES = ("group", "code", "column")


def quantized(values: NDArray[np.floating[Any]]) -> tuple[NDArray[np.int8], NDArray[np.float32]]:
    """Round values to int8.

    Args:
        values: float32 or float16 [D or 1, K, s].

    Returns:
        int8 of the same shape, -127 to 127, and their scales, float32 [D or 1]; a scale is 1 if all values are zero.

    Raises:
        BadInputError: A value is not finite.
    """
    check_finite("values", values, _AXES)
    wide = values.astype(np.float64)
    steps = np.abs(wide).max(axis=(1, 2)) / _LARGEST_INT8  # [D or 1]
    limits = np.finfo(np.float32)
    largest = np.nextafter(limits.max / np.float32(_LARGEST_INT8), np.float32(0))
    scales = np.where(steps == 0, 1, np.clip(steps, limits.smallest_subnormal, largest)).astype(np.float32)
    rounded = np.rint(wide / scales[:, np.newaxis, np.newaxis]).clip(-_LARGEST_INT8, _LARGEST_INT8)
    return rounded.astype(np.int8), scales


def scaled(stored: NDArray[np.int8], scales: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return int8 values [..., D, s] times their scales [D or 1]: a float32 product, rounded once."""
    return stored.astype(np.float32) * scales[:, np.newaxis]


def check_values(values: NDArray[Any], scales: NDArray[np.float32] | None) -> None:
    """Raise `BadInputError` for values that make rows not finite, and for -128, whose negative is not an int8.

    Args:
        values: float32, float16 or int8 [D or 1, K, s].
        scales: float32 [D or 1] of int8 values, else None.

    Raises:
        BadInputError: The message gives the place of the first one.
    """
    if scales is None:
        check_finite("values", values, _AXES)
        return
    if (values < -_LARGEST_INT8).any():
        where = np.argwhere(values < -_LARGEST_INT8)[0]
        place = ", ".join(f"{axis} {index}" for axis, index in zip(_AXES, where, strict=True))
        raise BadInputError(f"values: {place}: got -128, expected -127 to 127")
    with np.errstate(over="ignore"):
        sound = (scales > 0) & np.isfinite(scales * np.float32(_LARGEST_INT8))
    if not sound.all():
        group = int(np.flatnonzero(~sound)[0])
        expected = "expected a positive number that is finite times 127"
        raise BadInputError(f"value_scales: group {group}: got {scales[group]}, {expected}")
