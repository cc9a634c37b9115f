"""The tensors of one table in a file."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.packed.stored_names import stored_name


class StoredTable:
    """The tensors of a table, without the numbers that a layout appends.

    Args:
        tensors: bytes of the constants of the file, uint8 [bytes] by name.
        table: name of the table.
    """

    def __init__(self, tensors: Mapping[str, NDArray[np.uint8]], table: str) -> None:
        self._tensors, self._table = tensors, table

    def get(self, tensor: str, dtype: str, shape: tuple[int, ...]) -> NDArray[Any]:
        """Return the first numbers of a tensor."""
        kind = np.dtype(dtype).newbyteorder("<")
        nbytes = int(np.prod(shape, dtype=object)) * kind.itemsize
        return np.frombuffer(self._bytes(tensor)[:nbytes].tobytes(), kind).reshape(shape)

    def has(self, tensor: str) -> bool:
        """Return whether the file has the tensor."""
        return stored_name(self._table, tensor) in self._tensors

    def nbytes(self, tensor: str) -> int:
        """Return the bytes of a whole tensor."""
        return self._bytes(tensor).nbytes

    def _bytes(self, tensor: str) -> NDArray[np.uint8]:
        return self._tensors[stored_name(self._table, tensor)]
