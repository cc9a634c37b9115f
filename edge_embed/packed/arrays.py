"""Checks on the arrays that a packed form is made of."""

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
    """Refuse an array that rows cannot be made from.

    Args:
        name: Of the array.
        array: What should have one of the types, in the byte order of the machine.
        axes: Its axes in words, for the message.
        rank: Their number.
        types: Names of them.

    Raises:
        BadInputError: Type or rank is another.
    """
    _check_is_array(name, array)
    if str(array.dtype) not in types or array.ndim != rank:
        expected = f"expected {' or '.join(types)} [{axes}]"
        raise BadInputError(f"{name}: got {array.dtype} {list(array.shape)}, {expected}")


def _check_is_array(name: str, array: object) -> None:
    if not isinstance(array, np.ndarray):
        raise BadInputError(f"{name}: got a {type(array).__name__}, expected a numpy array")


def check_specs(tensors: Mapping[str, NDArray[Any]], specs: Mapping[str, TensorSpec]) -> None:
    """Refuse arrays whose type or shape is not what their table needs.

    Raises:
        BadInputError: It names the first one.
    """
    for name, (dtype, shape) in specs.items():
        array = tensors[name]
        _check_is_array(name, array)
        if (array.dtype, array.shape) != (np.dtype(dtype), shape):
            raise BadInputError(f"{name}: got {array.dtype} {list(array.shape)}, expected {dtype} {list(shape)}")


def check_finite(name: str, array: NDArray[np.floating[Any]], axes: tuple[str, ...]) -> None:
    """Refuse NaN and infinity.

    Args:
        name: Of the array.
        array: Of any shape.
        axes: What its axes count, for the message: ``("anchor", "column")``.

    Raises:
        BadInputError: It says where the first one lies.
    """
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(map(int, np.argwhere(~finite)[0]))
        place = ", ".join(f"{axis} {index}" for axis, index in zip(axes, where, strict=True))
        expected = "expected finite numbers; did the training diverge?"
        raise BadInputError(f"{name}: {place}: got {array[where]}, {expected}")
