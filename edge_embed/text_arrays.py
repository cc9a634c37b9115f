"""Texts as arrays of numpy: what runtimes take and give, and files hold.

Runtimes give texts as ``str`` or as bytes of UTF-8, in arrays of objects. No file holds these: reading them would run
code.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_KINDS = "OSU"


def holds_texts(values: NDArray[Any]) -> bool:
    """Whether an array holds texts."""
    return values.dtype.kind in _KINDS


def as_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Texts of any kind as ``str`` in an array of objects, as runtimes take them; numbers as they are."""
    if not holds_texts(values):
        return values
    made = np.empty(values.size, dtype=object)
    made[:] = [_text(value) for value in values.reshape(-1)]
    return made.reshape(values.shape)


def without_objects(values: NDArray[Any]) -> NDArray[Any]:
    """Texts as letters of a fixed number, which files of numpy hold; numbers as they are."""
    return as_texts(values).astype("U") if holds_texts(values) else values


def _text(value: Any) -> str:
    # Bytes that are no UTF-8 come back the same way.
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
