"""Comparison of stored tensors with the SHA-256 from the time of writing, one block at a time."""

import hashlib
from collections.abc import Mapping
from typing import BinaryIO

from edge_embed.errors import BadInputError
from edge_embed.inspection.report import HashStatus

_BLOCK_BYTES = 4 << 20


class HashCheck:
    """Comparison for one table: ``not checked`` until the first tensor is compared.

    Attributes:
        expected: SHA-256 in hex by tensor.
        differences: A sentence for each tensor that differs.
    """

    def __init__(self, table: str, expected: Mapping[str, str]) -> None:
        self.expected = expected
        self.differences: list[str] = []
        self._table = table
        self._compared = False

    def compare(self, tensor: str, digest: str) -> None:
        """Record whether a tensor's bytes are the ones that were written."""
        self._compared = True
        if digest != self.expected[tensor]:
            self.differences.append(
                f"table {self._table!r}: {tensor} differ: got SHA-256 {digest}, expected "
                f"{self.expected[tensor]} from the time of writing: export it again"
            )

    @property
    def status(self) -> HashStatus:
        """Return the status for the report."""
        if not self._compared:
            return "not checked"
        return "DIFFERS" if self.differences else "matches"


def sha256_of_range(file: BinaryIO, begin: int, nbytes: int) -> str:
    """Hash part of a file without holding it in memory.

    Raises:
        BadInputError: The file ends before the range does.
    """
    file.seek(begin)
    digest = hashlib.sha256()
    remaining = nbytes
    while remaining:
        block = file.read(min(remaining, _BLOCK_BYTES))
        if not block:
            raise BadInputError(f"ends {remaining} bytes early: the file became shorter while it was read")
        digest.update(block)
        remaining -= len(block)
    return digest.hexdigest()
