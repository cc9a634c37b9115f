"""Texts in numpy arrays, as runtimes accept and return them, and as files store them.

Runtimes return texts as ``str`` or as bytes of UTF-8, in arrays of objects. No file stores such arrays, because reading
them would run code.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

_KINDS = "OSU"


def holds_texts(values: NDArray[Any]) -> bool:
    """Return whether an array holds texts."""
    return values.dtype.kind in _KINDS


def as_texts(values: NDArray[Any]) -> NDArray[Any]:
    """Return texts of any kind as ``str`` in an array of objects, as runtimes accept them; numbers unchanged."""
    if not holds_texts(values):
        return values
    made = np.empty(values.size, dtype=object)
    made[:] = [_text(value) for value in values.reshape(-1)]
    return made.reshape(values.shape)


def without_objects(values: NDArray[Any]) -> NDArray[Any]:
    """Return texts as fixed-length strings, which files of numpy can hold; numbers unchanged."""
    return as_texts(values).astype("U") if holds_texts(values) else values


def _text(value: Any) -> str:
    # Bytes that are no UTF-8 come back the same way.
    return value.decode("utf-8", "surrogateescape") if isinstance(value, bytes) else str(value)
