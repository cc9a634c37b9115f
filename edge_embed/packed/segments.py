"""Sums and maxima over ragged pieces of an array: entries of CSR rows, ids of bags."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_NUMBERS = 1 << 20
"""Numbers in memory at a time (8 MiB as float64), so that memory depends on the result and not on the work."""


def blocks_of(counts: NDArray[np.integer[Any]], most: int) -> Iterator[slice]:
    """Yield blocks of consecutive pieces with at most ``most`` entries, or one longer piece.

    Empty pieces count as one entry.
    """
    ends = np.cumsum(np.maximum(counts, 1), dtype=np.int64)
    start = 0
    while start < len(ends):
        done = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + most, side="right")))
        yield slice(start, stop)
        start = stop


def entries_of(starts: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the indices of all entries: starts[0], starts[0] + 1, ... of the first piece, then of the next."""
    first = np.cumsum(counts) - counts  # start of each piece in the result
    indices: NDArray[np.int64] = np.arange(counts.sum()) + np.repeat(starts - first, counts)
    return indices


def reduce_pieces(
    function: np.ufunc, entries: NDArray[np.float64], counts: NDArray[np.integer[Any]]
) -> NDArray[np.float64]:
    """Reduce each piece.

    Args:
        function: ``np.add`` or ``np.maximum``.
        entries: The pieces one after the other, [sum of counts, d].
        counts: Number of entries of each piece, [m].

    Returns:
        float64 [m, d]; 0.0 for an empty piece.
    """
    result = np.zeros((len(counts), entries.shape[1]))
    some = counts > 0
    if some.any():
        starts = (np.cumsum(counts) - counts)[some]
        result[some] = function.reduceat(entries, starts, axis=0)
    return result
