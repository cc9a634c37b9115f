"""Random packed tables of any shape, made without their dense form."""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_embed.packed.packed_form import PackedTable

BLOCK_ROWS = 4096
_DENSE_SHARE = 8  # share of the free memory: an output layer needs its table several times, and quantised
_UNKNOWN_LIMIT = 1 << 30


class LeftOutError(Exception):
    """Raised when a peer cannot take part, with the reason."""


@dataclass(frozen=True)
class BenchTable:
    """Table that is measured.

    Attributes:
        name: name of the table in its file, or the data that it was made from.
        packed: the table.
        dense_limit: most bytes of the float32 table of the same rows; a larger one is not made.
        memory_bytes: session memory; None for the default.
        layout: layout in its TFLite file; None for the default.
    """

    name: str
    packed: PackedTable
    dense_limit: int
    memory_bytes: int | None = None
    layout: str | None = None

    @property
    def dense_bytes(self) -> int:
        """Return the bytes of the float32 table, 4nd."""
        return 4 * self.packed.num_embeddings * self.packed.embedding_dim

    @cached_property
    def dense(self) -> NDArray[np.float32]:
        """Return the same rows, float32 [n, d].

        Raises:
            LeftOutError: if it would take too much memory.
        """
        if self.dense_bytes > self.dense_limit:
            raise LeftOutError(f"dense table: got {self.dense_bytes:,} bytes, expected at most {self.dense_limit:,}")
        n = self.packed.num_embeddings
        dense = np.empty((n, self.packed.embedding_dim), np.float32)
        for start in range(0, n, BLOCK_ROWS):
            dense[start : start + BLOCK_ROWS] = self.packed.rows(np.arange(start, min(start + BLOCK_ROWS, n)))
        return dense


def dense_limit() -> int:
    """Return the bytes of the largest dense table that fits with its copies; 1 GB if the free memory is unknown."""
    try:
        found = re.search(r"^MemAvailable:\s*(\d+) kB$", Path("/proc/meminfo").read_text(), re.MULTILINE)
    except OSError:
        found = None
    return int(found[1]) * 1024 // _DENSE_SHARE if found else _UNKNOWN_LIMIT


def normal(random: np.random.Generator, *shape: int) -> NDArray[np.float32]:
    """Return normally distributed numbers, float32, of a shape."""
    return random.standard_normal(shape, np.float32)
