"""A dense table to compress, read in blocks; it may be larger than the memory, such as a memory-mapped file."""

import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.fitting.processes import ALONE, Processes
from edge_embed.layers.arguments import checked_counts


class SomeRows:
    """Rows of a table that are copied only when they are read.

    Args:
        weight: table [n, d].
        ids: ids of the rows, int64 [m].
    """

    def __init__(self, weight: "Weight", ids: Tensor) -> None:
        self.weight, self.ids = weight, ids
        self.shape: tuple[int, int] = (len(ids), int(weight.shape[1]))
        self.ndim, self.dtype = 2, cast(Any, weight).dtype

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return len(self) * int(self.weight[:1].nbytes)

    def __getitem__(self, places: "slice | Tensor | NDArray[np.int64]") -> Tensor | NDArray[np.floating[Any]]:
        return rows_at(self.weight, self.ids[places])


Weight = Tensor | NDArray[np.floating[Any]] | SomeRows

_BLOCK_NUMBERS = 1 << 22
_SUM_BITS = 50
_FLOAT16 = (1e-2, 6e4)  # range of the largest absolute value of a table that float16 stores well


def columns_of(weight: Weight, own: slice) -> Weight:
    """Return some columns of all rows, without a copy."""
    return SomeRows(columns_of(weight.weight, own), weight.ids) if isinstance(weight, SomeRows) else weight[:, own]


def rows_at(weight: Weight, ids: Tensor) -> Tensor | NDArray[np.floating[Any]]:
    """Return rows [m, d] of a table at ids, int64 [m] on the CPU."""
    if isinstance(weight, SomeRows):
        return weight[ids]
    return weight[ids.to(weight.device) if isinstance(weight, Tensor) else ids.numpy()]


def table_size(weight: Weight) -> tuple[int, int]:
    """Return rows n and columns d.

    Raises:
        BadInputError: if the weight is not a dense table of floats, is empty, or has no numbers.
    """
    if isinstance(weight, SomeRows):  # of a table that was checked
        return weight.shape
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
    """Measures of some rows: sum of squares, largest absolute number, length and place of the longest row.

    ``lengths`` is the sum of the lengths of all other rows.
    """

    energy: float
    largest: float
    lengths: float
    longest: float
    longest_row: int


class DenseTable:
    """Rows [n, d] of any float dtype, read as float64; the padding row reads as zero.

    Args:
        weight: array (also memory-mapped) or tensor on any device; it is not changed.
        padding_idx: id of the padding row, from 0 on, or None.
        row_order: place of each row of ``weight`` in the order of reading, a permutation [n] that keeps the place of
            the padding row; None for the order of ``weight``.
        processes: processes that share the work, each with the whole table.
        rotation: orthogonal matrix R [d, d]: rows are read times its transpose.
        nbytes: bytes of the table in its model, if different from ``weight``.

    Attributes:
        energy: sum of all squares.
        largest: largest absolute number.
        mean_length: mean length of the rows.
        longest: length of the longest row.
        longest_row: place of the longest row in ``weight``.
        mean_of_others: mean length of all other rows.

    Raises:
        BadInputError: if the weight is not a table of floats, is empty, or holds numbers outside float32 (NaN,
            infinity).
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
        self._ids = None if row_order is None else row_order.cpu().argsort()  # ids in the order of reading
        places = list(self.places(self.num_embeddings))
        measured = processes.gathered(places, lambda some: list(map(self._measure, some)))
        blocks = [block for part in measured for block in part]
        self.energy = sum(block.energy for block in blocks)
        self.largest = max(block.largest for block in blocks)
        first = max(blocks, key=lambda block: block.longest)
        self.longest, self.longest_row = first.longest, first.longest_row
        # The sum of all lengths minus the longest one could be lost to rounding.
        others = sum(block.lengths for block in blocks) + sum(block.longest for block in blocks if block is not first)
        self.mean_length = (others + self.longest) / self.num_embeddings
        self.mean_of_others = others / max(1, self.num_embeddings - 1)

    def _measure(self, place: slice) -> "_Measured":
        """Measure one block; each number is read once."""
        block = self.stored(place)
        finite = block.float().isfinite().all(1)
        if not finite.all():
            row = self._row(place.start + int(finite.int().argmin()))
            raise BadInputError(f"weight: row {row} contains NaN, infinity or a number too large for float32")
        squares = block.square().sum(1)
        lengths = squares.sqrt()
        at = int(lengths.argmax())
        longest = float(lengths[at])
        lengths[at] = 0
        largest, row = float(block.abs().max()), self._row(place.start + at)
        return _Measured(float(squares.sum()), largest, float(lengths.sum()), longest, row)

    def _row(self, place: int) -> int:
        """Return the place in the weight of a row in the order of reading."""
        return place if self._ids is None else int(self._ids[place])

    def blocks(self, rows: int, unit: int = 1) -> Iterator[Tensor]:
        """Return an iterator over all rows in order, padded with zeros to ``rows``.

        Returns:
            float64 [Q, d] each; Q is a multiple of ``unit``, as ``rows`` must be.
        """
        return map(self.block, self.places(rows, unit))

    def places(self, rows: int, unit: int = 1, numbers: int | None = None) -> Iterator[slice]:
        """Return an iterator over the slices of these blocks, of at most so many numbers if a unit has no more."""
        step = max(1, (numbers or _BLOCK_NUMBERS) // (self.embedding_dim * unit)) * unit
        return (slice(begin, min(begin + step, rows)) for begin in range(0, rows, step))

    def rows(self, ids: Tensor) -> Tensor:
        """Return some rows: int64 [m], places in the order of reading -> float64 [m, d]."""
        return self._rotated(self._unrotated(ids, slice(None)))

    def _unrotated(self, ids: Tensor, own: slice) -> Tensor:
        part = rows_at(columns_of(self._weight, own), ids if self._ids is None else self._ids[ids])
        rows = torch.empty(tuple(part.shape), dtype=torch.float64)
        _write(part, rows)
        return rows if self._padding is None else rows.masked_fill((ids == self._padding)[:, None], 0)

    def columns(self, ids: Tensor, own: slice, scale: float) -> Tensor:
        """Return some columns of some rows, times a scale: int64 [m], places in the order of reading -> float32 [m, s].

        Only a block of them is in memory as float64.
        """
        found = torch.empty(len(ids), own.stop - own.start)
        for place in self.places(len(ids)):
            found[place] = self._columns(ids[place], own).mul_(scale)
        return found

    def _columns(self, ids: Tensor, own: slice) -> Tensor:
        """Return columns of rows, float64 [m, s]."""
        if self.rotation is not None:
            return self._unrotated(ids, slice(None)) @ self.rotation[own].double().T
        return self._unrotated(ids, own)

    @property
    def fits_float16(self) -> bool:
        """True if float16 stores the numbers well."""
        return _FLOAT16[0] <= self.largest <= _FLOAT16[1]

    def block(self, place: slice) -> Tensor:
        """Return the rows of a slice, float64 [Q, d]."""
        return self._rotated(self.stored(place))

    def all_rows(self, dtype: torch.dtype) -> Tensor:
        """Return all rows, in the order of reading and in a dtype: [n, d]."""
        return torch.cat([self.block(place).to(dtype) for place in self.places(self.num_embeddings)])

    def stored(self, place: slice) -> Tensor:
        """Return the rows of a slice without the rotation, float64 [Q, d]."""
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

    def _rows(self, ids: Tensor) -> Tensor | NDArray[np.floating[Any]]:
        return rows_at(self._weight, ids)


def moments(table: DenseTable, weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return weighted sums over all rows, shared among the processes of the table, the same for any number of them.

    Sums of blocks are rounded to multiples of 2^-50 of a bound of all sums. Adding these is exact, in any order.

    Args:
        table: E [n, d].
        weights: w_i, float64 [n].

    Returns:
        sum_i w_i E_i^T E_i [d, d], sum_i w_i E_i [d] and sum_i w_i, float64.
    """
    dim = table.embedding_dim
    largest = float(weights.max())
    bounds = largest * table.energy, largest * math.sqrt(table.num_embeddings * table.energy)  # of products and of sums
    of_products, of_sums = (2.0 ** (math.frexp(bound)[1] - _SUM_BITS) for bound in bounds)

    def sums_of(some: Sequence[slice]) -> Tensor:
        sums = torch.zeros(dim + 1, dim, dtype=torch.float64)
        for place in some:
            block = table.block(place)
            counted = block * weights[place, None]
            sums[:dim] += (block.T @ counted).div_(of_products).round_().mul_(of_products)
            sums[dim] += counted.sum(0).div_(of_sums).round_().mul_(of_sums)
        return sums

    sums = table.processes.summed(list(table.places(table.num_embeddings)), sums_of)
    return sums[:dim], sums[dim], weights.sum()


def row_weights(counts: Tensor | None, num_embeddings: int, padding_idx: int | None) -> Tensor:
    """Return the weight of each row relative to the largest: its frequency; the padding row has weight 0.

    Args:
        counts: numbers >= 0, [n], or None.
        num_embeddings: number of rows n.
        padding_idx: id of the padding row, from 0 on, or None.

    Returns:
        float64 [n].

    Raises:
        BadInputError: if counts are not such numbers, or all weights are 0.
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
        besides = "" if padding_idx is None else " outside the padding row"
        raise BadInputError(f"counts: got only zeros{besides}, expected a number above 0; or leave counts out")
    return weights.div_(weights.max().clamp(min=torch.finfo(torch.float64).tiny))  # so their sum is finite


def _write(part: Tensor | NDArray[np.floating[Any]], to: Tensor) -> None:
    """Copy rows of any float dtype to float64 [Q, d] in one pass: reading takes as long as the search for codes."""
    if isinstance(part, Tensor):
        to.copy_(part.detach())
    else:
        to.numpy()[:] = part
