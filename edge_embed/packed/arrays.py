"""Checks of the arrays of a packed form."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed.floats import FLOAT_BYTES
from edge_embed.packed.packed_form import TensorSpec


def check_floats(
    name: str, array: NDArray[Any], axes: str, rank: int, types: tuple[str, ...] = tuple(FLOAT_BYTES)
) -> None:
    """Raise `BadInputError` unless an array has one of the dtypes and the rank.

    Args:
        name: Name of the array.
        array: The array, in the byte order of the machine.
        axes: Names of its axes, for the message.
        rank: Number of axes.
        types: Names of the dtypes.

    Raises:
        BadInputError: Dtype or rank is another one.
    """
    _check_is_array(name, array)
    if str(array.dtype) not in types or array.ndim != rank:
        expected = f"expected {' or '.join(types)} [{axes}]"
        raise BadInputError(f"{name}: got {array.dtype} {list(array.shape)}, {expected}")


def _check_is_array(name: str, array: object) -> None:
    if not isinstance(array, np.ndarray):
        raise BadInputError(f"{name}: got a {type(array).__name__}, expected a numpy array")


def check_specs(tensors: Mapping[str, NDArray[Any]], specs: Mapping[str, TensorSpec]) -> None:
    """Raise `BadInputError` unless arrays have the dtypes and shapes that their table needs.

    Raises:
        BadInputError: The message names the first wrong array.
    """
    for name, (dtype, shape) in specs.items():
        array = tensors[name]
        _check_is_array(name, array)
        if (array.dtype, array.shape) != (np.dtype(dtype), shape):
            raise BadInputError(f"{name}: got {array.dtype} {list(array.shape)}, expected {dtype} {list(shape)}")


def check_finite(name: str, array: NDArray[np.floating[Any]], axes: tuple[str, ...]) -> None:
    """Raise `BadInputError` for NaN and infinity.

    Args:
        name: Name of the array.
        array: Array of any shape.
        axes: Names of what its axes count, for the message: ``("anchor", "column")``.

    Raises:
        BadInputError: The message gives the place of the first one.
    """
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(map(int, np.argwhere(~finite)[0]))
        place = ", ".join(f"{axis} {index}" for axis, index in zip(axes, where, strict=True))
        expected = "expected finite numbers; did the training diverge?"
        raise BadInputError(f"{name}: {place}: got {array[where]}, {expected}")
