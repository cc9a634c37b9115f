"""A dense table to be compressed, read in blocks: it may be larger than the memory, a memory-mapped file for one."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.fitting.processes import ALONE, Processes
from edge_embed.layers.table import checked_counts

Weight = Tensor | NDArray[np.floating[Any]]

_BLOCK_NUMBERS = 1 << 22


def table_size(weight: Weight) -> tuple[int, int]:
    """Rows n and columns d.

    Raises:
        BadInputError: if it is no dense table of floats, empty, or without numbers.
    """
    if not isinstance(weight, Tensor | np.ndarray):
        raise BadInputError(f"weight: got a {type(weight).__name__}, expected a tensor or numpy array [n, d]")
    if isinstance(weight, Tensor) and (weight.layout != torch.strided or weight.is_meta):
        got = "on the meta device, which has no numbers" if weight.is_meta else f"of {weight.layout}"
        raise BadInputError(f"weight: got a tensor {got}, expected a dense one: load it, or give weight.to_dense()")
    floats = weight.is_floating_point() if isinstance(weight, Tensor) else weight.dtype.kind == "f"
    if weight.ndim != 2 or 0 in weight.shape or not floats:
        shown = f"{str(weight.dtype).removeprefix('torch.')} {list(weight.shape)}"
        raise BadInputError(f"weight: got {shown}, expected floats [n, d]")
    n, dim = weight.shape
    return int(n), int(dim)


class _Measured(NamedTuple):
    """Of some rows: the sum of all squares, the largest number without its sign, the longest one, and its place.

    ``lengths`` is the sum of all others' lengths.
    """

    energy: float
    largest: float
    lengths: float
    longest: float
    longest_row: int


class DenseTable:
    """Rows [n, d] of any float type, as float64; the padding row reads as zero.

    Args:
        weight: array (memory-mapped too) or tensor on any device; it is not changed.
        padding_idx: a row that is not learned, from 0 on, or None.
        row_order: for each row of ``weight`` its place among those that are read, a permutation [n] in which the
            padding row keeps its place; None for the order of ``weight``.
        processes: who shares the work on it, each with the whole table.
        rotation: R [d, d], whose transpose is its inverse: rows are read times its transpose.
        nbytes: of the table as its model holds it, where that is not the size of ``weight``.

    Attributes:
        energy: sum of all squares.
        largest: the largest number, without its sign.
        mean_length: of its rows.
        longest: the length of the longest row.
        longest_row: its place in ``weight``.
        mean_of_others: the mean length of all rows but that one.

    Raises:
        BadInputError: if it is no table of floats, is empty, or holds what float32 cannot hold (NaN, infinity).
    """

    def __init__(
        self,
        weight: Weight,
        padding_idx: int | None,
        row_order: Tensor | None = None,
        processes: Processes = ALONE,
        rotation: Tensor | None = None,
        nbytes: int | None = None,
    ) -> None:
        self.num_embeddings, self.embedding_dim = table_size(weight)
        self.nbytes = int(weight.nbytes) if nbytes is None else nbytes
        self._weight, self._padding, self.processes = weight, padding_idx, processes
        self.rotation = rotation
        self._ids = None if row_order is None else row_order.cpu().argsort()  # of the rows that are read
        places = list(self.places(self.num_embeddings))
        measured = processes.gathered(places, lambda some: list(map(self._measure, some)))
        blocks = [block for part in measured for block in part]
        self.energy = sum(block.energy for block in blocks)
        self.largest = max(block.largest for block in blocks)
        first = max(blocks, key=lambda block: block.longest)
        self.longest, self.longest_row = first.longest, first.longest_row
        # Not the sum of all less the longest one, of which rounding may leave nothing.
        others = sum(block.lengths for block in blocks) + sum(block.longest for block in blocks if block is not first)
        self.mean_length = (others + self.longest) / self.num_embeddings
        self.mean_of_others = others / max(1, self.num_embeddings - 1)

    def _measure(self, place: slice) -> "_Measured":
        """Looks at every number once."""
        block = self.stored(place)
        finite = block.float().isfinite().all(1)
        if not finite.all():
            row = self._row(place.start + int(finite.int().argmin()))
            raise BadInputError(f"weight: row {row} holds what float32 cannot: NaN, infinity or a larger number")
        squares = block.square().sum(1)
        lengths = squares.sqrt()
        at = int(lengths.argmax())
        longest = float(lengths[at])
        lengths[at] = 0
        largest, row = float(block.abs().max()), self._row(place.start + at)
        return _Measured(float(squares.sum()), largest, float(lengths.sum()), longest, row)

    def _row(self, place: int) -> int:
        """Where a row that is read lies in the weight."""
        return place if self._ids is None else int(self._ids[place])

    def blocks(self, rows: int, unit: int = 1) -> Iterator[Tensor]:
        """All rows, filled up with zeros to ``rows``, in order.

        Returns:
            float64 [Q, d] each; Q is a multiple of ``unit``, as ``rows`` has to be.
        """
        return map(self.block, self.places(rows, unit))

    def places(self, rows: int, unit: int = 1) -> Iterator[slice]:
        """Where the rows of each of those blocks are."""
        step = max(1, _BLOCK_NUMBERS // (self.embedding_dim * unit)) * unit
        return (slice(begin, min(begin + step, rows)) for begin in range(0, rows, step))

    def rows(self, ids: Tensor) -> Tensor:
        """Some rows: int64 [m], places among those that are read -> float64 [m, d]."""
        rows = torch.empty(len(ids), self.embedding_dim, dtype=torch.float64)
        _write(self._rows(ids if self._ids is None else self._ids[ids]), rows)
        return self._rotated(rows if self._padding is None else rows.masked_fill((ids == self._padding)[:, None], 0))

    def block(self, place: slice) -> Tensor:
        """The rows of one place, float64 [Q, d]."""
        return self._rotated(self.stored(place))

    def stored(self, place: slice) -> Tensor:
        """The same, as they are without a rotation."""
        begin, end = place.start, place.stop
        block = torch.empty(end - begin, self.embedding_dim, dtype=torch.float64)
        part = self._weight[begin:end] if self._ids is None else self._rows(self._ids[begin:end])
        _write(part, block[: len(part)])
        block[len(part) :] = 0
        if self._padding is not None and begin <= self._padding < end:
            block[self._padding - begin] = 0
        return block

    def _rotated(self, rows: Tensor) -> Tensor:
        return rows if self.rotation is None else rows @ self.rotation.double().T

    def _rows(self, ids: Tensor) -> Weight:
        return self._weight[ids.to(self._weight.device) if isinstance(self._weight, Tensor) else ids.numpy()]


def moments(table: DenseTable, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Sums over all rows, shared out among the processes of the table.

    Args:
        table: E [n, d].
        weights: w_i, float64 [n].

    Returns:
        sum_i w_i E_i^T E_i [d, d], sum_i w_i E_i [d] and sum_i w_i, float64.
    """
    dim = table.embedding_dim

    def sums_of(some: Sequence[slice]) -> Tensor:
        sums = torch.zeros(dim + 1, dim, dtype=torch.float64)
        for place in some:
            block = table.block(place)
            counted = block * weights[place, None]
            sums[:dim].addmm_(block.T, counted)
            sums[dim] += counted.sum(0)
        return sums

    sums = table.processes.summed(list(table.places(table.num_embeddings)), sums_of)
    return sums[:dim], sums[dim], weights.sum()


def row_weights(counts: Tensor | None, num_embeddings: int, padding_idx: int | None) -> Tensor:
    """How much each row counts, beside the one that counts most: as often as it comes up; the padding row not at all.

    Args:
        counts: numbers >= 0, [n], or None.
        num_embeddings: n.
        padding_idx: from 0 on.

    Returns:
        float64 [n].

    Raises:
        BadInputError: if counts are no such numbers, or no row counts anything.
    """
    if counts is None:
        weights = torch.ones(num_embeddings, dtype=torch.float64)
    else:
        weights = checked_counts(counts).clone()
        if len(weights) != num_embeddings:
            raise BadInputError(f"counts: got {len(weights)}, expected {num_embeddings}, one for each row")
        if weights.min() < 0:
            raise BadInputError(f"counts: got {weights.min():g} for row {int(weights.argmin())}, expected none below 0")
    if padding_idx is not None:
        weights[padding_idx] = 0
    if counts is not None and not weights.any():
        besides = "" if padding_idx is None else ", besides the padding row"
        raise BadInputError(f"counts: got zeros only{besides}, expected a row that counts; or leave counts out")
    return weights / weights.max().clamp(min=torch.finfo(torch.float64).tiny)  # their sum is finite


def _write(part: Weight, to: Tensor) -> None:
    """Rows of any float type to float64 [Q, d]: in one pass, as to read them takes as long as to find their codes."""
    if isinstance(part, Tensor):
        to.copy_(part.detach())
    else:
        to.numpy()[:] = part
