"""Sequential reader of a memory-mapped fastText model; sizes are checked against the file before use."""

import struct
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.importers.row_tokens import MAX_TOKEN_BYTES
from edge_embed.input_file import mapped


def damaged(what: str) -> BadInputError:
    """Return the error for a damaged model."""
    return BadInputError(f"damaged fastText model: {what}: fetch it again")


class FastTextFile:
    """Position in a file, which moves on with every read.

    Args:
        path: the file; arrays are mapped from it.

    Raises:
        BadInputError: it cannot be read.
    """

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._content = mapped(file)
        except OSError as error:
            raise BadInputError(f"cannot be read: {error.strerror or error}") from error
        self._at = 0

    @property
    def left(self) -> int:
        """Number of unread bytes."""
        return len(self._content) - self._at

    def numbers(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Return the next numbers.

        Raises:
            BadInputError: the file ends before.
        """
        if layout.size > self.left:
            raise damaged("it ends too early")
        self._at += layout.size
        return layout.unpack_from(self._content, self._at - layout.size)

    def array(self, dtype: str, count: int, what: str) -> NDArray[Any]:
        """Return the next numbers as an array [count], not copied and possibly unaligned.

        Args:
            dtype: dtype of numpy.
            count: number of items, from 0 on.
            what: description for the message.

        Raises:
            BadInputError: the file ends before.
        """
        size = count * np.dtype(dtype).itemsize
        if size > self.left:
            raise damaged(f"{what} does not fit into the file")
        self._at += size
        return np.frombuffer(self._content, dtype, count, self._at - size)

    def name(self) -> bytes | None:
        """Return the bytes up to the next NUL, or None if they are longer than any token."""
        end = self._content.find(b"\0", self._at, self._at + MAX_TOKEN_BYTES + 1)
        if end < 0:
            return None
        begin, self._at = self._at, end + 1
        return self._content[begin:end]
