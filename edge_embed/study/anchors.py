"""Analysis of anchors as in the ANT paper (sec. 4.4 and table 5), for layers of ANT or their packed form.

    rows of anchor a:   the rows i with the largest weights T[i, a]

A softmax mixture is refused: its packed form has other weights, those above the least of each set, and further anchors.
Each call packs a layer again. For several calls, pack it once with ``layer.to_packed()``. The transform is read in
blocks. The padding row has no entries and is ignored.

Source: "Anchor & Transform: Learning Sparse Embeddings for Large Vocabularies" (ICLR 2021).
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.layers.arguments import checked_count
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.segments import BLOCK_NUMBERS
from edge_embed.study.tables import Layer, packed_form


class Entries(NamedTuple):
    """Entries of a transform T, largest first.

    Attributes:
        rows: int64 [m].
        anchors: int64 [m].
        weights: float64 [m], above 0.
    """

    rows: NDArray[np.int64]
    anchors: NDArray[np.int64]
    weights: NDArray[np.float64]


def largest_entries(table: PackedANT | Layer[PackedANT], k: int = 10) -> Entries:
    """Return the largest entries of the transform: the pairs of a row and an anchor of table 5, right.

    Args:
        table: an ANT table.
        k: number of entries; fewer are returned if fewer are above 0. The lowest row, then the lowest anchor, is first
            among equal ones.

    Raises:
        BadInputError: if ``table`` is not an ANT table, or ``k`` is no integer above 0.
    """
    packed, k = _ant(table), checked_count("k", k)
    return _best(packed, lambda found: _taken(found, np.lexsort((found.anchors, found.rows, -found.weights))[:k]))


def rows_of_anchors(table: PackedANT | Layer[PackedANT], k: int = 10) -> list[Entries]:
    """Return the rows with the largest weight of each anchor: words and movies of an anchor in table 5.

    Args:
        table: an ANT table.
        k: number of rows for each anchor; an anchor that fewer rows use has fewer. The lowest row is first among equal
            weights.

    Returns:
        One `Entries` for each of the A anchors.

    Raises:
        BadInputError: if ``table`` is not an ANT table, or ``k`` is no integer above 0.
    """
    packed, k = _ant(table), checked_count("k", k)

    def first_of_each(found: Entries) -> Entries:
        found = _taken(found, np.lexsort((found.rows, -found.weights, found.anchors)))
        first = np.searchsorted(found.anchors, found.anchors)  # of the entries of each anchor
        return _taken(found, np.arange(len(first)) - first < k)

    best = _best(packed, first_of_each)
    ends = np.searchsorted(best.anchors, np.arange(1, len(packed.anchors)))
    return [Entries(*parts) for parts in zip(*(np.split(part, ends) for part in best), strict=True)]


def empty_rows(table: PackedANT | Layer[PackedANT]) -> NDArray[np.int64]:
    """Return the rows without an anchor, int64 [m] in ascending order: rare rows, in sec. 4.4 of the paper.

    Raises:
        BadInputError: if ``table`` is not an ANT table.
    """
    packed = _ant(table)
    empty = np.flatnonzero(np.diff(packed.row_offsets) == 0)
    return empty if packed.padding_idx is None else empty[empty != packed.padding_idx]


def _ant(table: object) -> PackedANT:
    if getattr(table, "mixing", None) == "softmax":
        got = "table: got a softmax mixture, whose packed form has other weights"
        raise BadInputError(f"{got}; pass a linear mixture or an ANTEmbedding, or study layer.transform")
    packed = packed_form(table)
    if not isinstance(packed, PackedANT):
        raise BadInputError(f"got a table of {packed.method}, which has no anchors, expected a table of ant")
    return packed


def _best(packed: PackedANT, select: Callable[[Entries], Entries]) -> Entries:
    """Return what ``select`` keeps of all entries, of which it sees those kept before and one block at a time."""
    best = Entries(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    for block in _blocks(packed):
        best = select(_joined(best, block))
    return best


def _blocks(packed: PackedANT) -> Iterator[Entries]:
    """Yield all entries, in blocks."""
    for start in range(0, len(packed.weights), BLOCK_NUMBERS):
        block = slice(start, start + BLOCK_NUMBERS)
        weights = packed.weights[block].astype(np.float64) * packed.weight_scale[0].astype(np.float64)
        rows = np.searchsorted(packed.row_offsets, np.arange(start, start + len(weights)), side="right") - 1
        yield Entries(rows, packed.anchor_ids[block].astype(np.int64), weights)


def _joined(first: Entries, second: Entries) -> Entries:
    rows, anchors, weights = (np.concatenate(parts) for parts in zip(first, second, strict=True))
    return Entries(rows, anchors, weights)


def _taken(entries: Entries, which: NDArray[np.int64] | NDArray[np.bool_]) -> Entries:
    return Entries(entries.rows[which], entries.anchors[which], entries.weights[which])
