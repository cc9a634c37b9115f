"""Cores from a dense table by successive singular value decompositions.

    A_k [rows, columns]  ~  U_k A_{k+1}     U_k: the first left singular vectors of A_k     A_{k+1} = U_k^T A_k

Source: Oseledets, "Tensor-Train Decomposition" (SIAM J. Sci. Comput. 2011), algorithm 1; for rings Zhao et al., "Tensor
Ring Decomposition" (arXiv:1606.05535, 2016), algorithm 1. Each U_k has orthonormal columns, so the squared errors of
the N - 1 steps add up.

The rows of A_1 are the last digits of ids and columns, so U_1 is G_N; G_1, G_2 and so on follow. A ring can begin at
any core. R_{N-1} and R_0 share the vectors of U_1, and the last core has most room for both, as factors rise. For a
train, with R_0 = 1, the bounds are the same in every order.

Singular vectors are computed from the product of A_k and its transpose, on its shorter side, in float64. Singular
values are then accurate to 1e-8 of the largest, finer than float32 cores. The product is summed over blocks, so neither
A_1 nor its right vectors have to be in memory.

`edge_embed.fitting.weighted_least_squares` handles rows with different weights.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.fitting.dense_table import DenseTable, Weight, row_weights, table_size
from edge_embed.fitting.processes import Processes
from edge_embed.fitting.weighted_least_squares import RowWeights, improved
from edge_embed.layers.tt import TTEmbedding

Layer = TypeVar("Layer", bound=TTEmbedding)

_LEAST_TOLERANCE = 1e-5
"""Relative to the table's norm: cores are float32, and with large ranks their rounding comes close to this."""


@dataclass(frozen=True)
class Limit:
    """Limit of the number of singular vectors that the steps keep.

    Attributes:
        ranks: maximum of R_0 ... R_N, or None.
        tail: without ranks: maximum sum of squares that each step may leave out.
    """

    ranks: tuple[int, ...] | None
    tail: float = 0.0

    def kept(self, k: int, squares: Tensor) -> int:
        """Return R_k from the squares of all singular values of its step, the largest first."""
        if self.ranks is not None:
            return min(self.ranks[k], len(squares))
        left_out = squares.flip(0).cumsum(0).flip(0)
        return max(1, int((left_out > self.tail).sum()))


Shapes = tuple[Sequence[int] | None, Sequence[int] | None, int | None]
"""I_1 ... I_N, J_1 ... J_N and N, each given or None."""

First = Callable[[Limit, Tensor], tuple[int, int]]
"""Function that returns R_{N-1} and R_0 from the limit and the squares of the first step."""


def fit(
    make: type[Layer],
    first: First,
    weight: Weight,
    rank: int | Sequence[int] | None,
    ratio: float | None,
    tolerance: float | None,
    padding_idx: int | None,
    shapes: Shapes,
    row_order: Tensor | None,
    counts: Tensor | None,
    processes: Processes,
) -> Layer:
    """Fit a trainable layer of class ``make`` to ``weight`` within the limit; see `tt.fit` and `tr.fit`."""
    given = [name for name, value in (("rank", rank), ("ratio", ratio), ("tolerance", tolerance)) if value is not None]
    if len(given) != 1:
        raise BadInputError(f"got {' and '.join(given) or 'none'}, expected one of rank, ratio and tolerance")
    if tolerance is not None and not (isinstance(tolerance, int | float) and _LEAST_TOLERANCE <= tolerance < 1):
        raise BadInputError(f"tolerance must be {_LEAST_TOLERANCE:g} to below 1, got {tolerance!r:.80}")
    if tolerance is not None and counts is not None:
        raise BadInputError("got tolerance and counts, for which no error bound is known; give rank or ratio")
    n, dim = table_size(weight)
    most = 1 if tolerance is not None else rank
    pattern = make(n, dim, most, *shapes, padding_idx=padding_idx, device="meta", ratio=ratio, row_order=row_order)
    counted = _counted(counts, pattern, row_order)
    table = DenseTable(weight, pattern.padding_idx, row_order, processes)
    steps = len(pattern.row_shape) - 1
    limit = Limit(pattern.ranks) if tolerance is None else Limit(None, tolerance**2 * table.energy / steps)
    cores = decompose(
        table, pattern.row_shape, pattern.col_shape, limit, first, None if counted is None else counted.roots
    )
    if counted is not None:
        cores = counted.taken_out(improved(table, counted, cores))
    return make.from_cores([core.float() for core in balanced(cores)], n, pattern.padding_idx, row_order)


def _counted(counts: Tensor | None, pattern: TTEmbedding, row_order: Tensor | None) -> RowWeights | None:
    """Return None if all rows have the same weight, because decompositions then need no weights."""
    if counts is None:
        return None
    alike, weights = (row_weights(each, pattern.num_embeddings, pattern.padding_idx) for each in (None, counts))
    return None if torch.equal(alike, weights) else RowWeights.of(weights, pattern.row_shape, row_order)


def fitted_ranks(pattern: TTEmbedding, first: First) -> tuple[int, ...]:
    """Return R_0 ... R_N of a fit with the ranks of a pattern: no step has more singular vectors than its matrix."""
    sizes, limit = [i * j for i, j in zip(pattern.row_shape, pattern.col_shape, strict=True)], Limit(pattern.ranks)
    before, rank = first(limit, torch.ones(min(sizes[-1], math.prod(sizes[:-1]))))
    ranks = [rank]
    for k, size in enumerate(sizes[:-2]):
        columns = math.prod(sizes[k + 1 : -1]) * before
        ranks.append(limit.kept(k + 1, torch.ones(min(ranks[-1] * size, columns))))
    return *ranks, before, rank


def decompose(
    table: DenseTable,
    row_shape: Sequence[int],
    col_shape: Sequence[int],
    limit: Limit,
    first: First,
    factors: Tensor | None = None,
) -> list[Tensor]:
    """Return N cores of the table, float64 [I_k, R_{k-1}, J_k, R_k]; all but G_{N-1} consist of orthonormal vectors.

    With ``factors``, float64 [I_1 ... I_N], they are the cores of the rows times these factors.
    """
    i, j = row_shape[-1], col_shape[-1]
    rows, columns = math.prod(row_shape[:-1]), math.prod(col_shape[:-1])
    blocks = _FirstUnfolding(table, rows, i, j, factors)
    squares, left_vectors = _decomposed(blocks, (i * j, rows * columns), blocks.product)
    before, rank = first(limit, squares)
    vectors = left_vectors(before * rank)
    last = vectors.reshape(i, j, before, rank).transpose(1, 2)
    rest = torch.cat(blocks.times(vectors.T), 1)  # [R_{N-1} R_0, rows columns]
    rest = rest.reshape(before, rank, rows, columns).permute(1, 2, 3, 0).flatten(2)  # [R_0, rows, columns R_{N-1}]
    cores = []
    for k in range(len(row_shape) - 2):
        i, j = row_shape[k], col_shape[k]
        matrix = _unfolded(rest, i, j)
        size = len(matrix), matrix.shape[1]
        squares, left_vectors = _decomposed([matrix], size, partial(torch.mm, matrix, matrix.T))
        vectors = left_vectors(limit.kept(k + 1, squares))
        cores.append(vectors.reshape(rank, i, j, -1).transpose(0, 1))
        rank = vectors.shape[1]
        rest = (vectors.T @ matrix).reshape(rank, rest.shape[1] // i, rest.shape[2] // j)
    return [*cores, rest.reshape(rank, row_shape[-2], col_shape[-2], before).transpose(0, 1), last]


@dataclass(frozen=True)
class _FirstUnfolding:
    """A_1 [I_N J_N, rows columns] in blocks of columns, read from the table on each pass."""

    table: DenseTable
    rows: int
    i: int
    j: int
    factors: Tensor | None

    def __iter__(self) -> Iterator[Tensor]:
        return map(self._block, self._places())

    def product(self) -> Tensor:
        """Return A_1 A_1^T; each process sums some blocks."""
        return self.table.processes.summed(self._places(), self._product_of)

    def times(self, left: Tensor) -> list[Tensor]:
        """Return the product of ``left`` and A_1 in blocks of columns; each process multiplies some."""
        return list(self.table.processes.each(self._places(), lambda place: left @ self._block(place)))

    def _places(self) -> list[slice]:
        return list(self.table.places(self.rows * self.i, self.i))

    def _block(self, place: slice) -> Tensor:
        rows = self.table.block(place)  # [Q I_N, d]
        if self.factors is not None:
            rows = rows * self.factors[place, None]
        digits = rows.reshape(-1, self.i, rows.shape[1] // self.j, self.j)  # [Q, I_N, columns, J_N]
        return digits.permute(1, 3, 0, 2).reshape(self.i * self.j, -1)

    def _product_of(self, places: Sequence[slice]) -> Tensor:
        product = torch.zeros(self.i * self.j, self.i * self.j, dtype=torch.float64)
        for place in places:
            block = self._block(place)
            product.addmm_(block, block.T)
        return product


def _unfolded(rest: Tensor, i: int, j: int) -> Tensor:
    """Reshape [R, rows, columns] to [R i j, rows / i * columns / j]: the first digit of each index moves left."""
    rank, rows, columns = rest.shape
    return rest.reshape(rank, i, rows // i, j, columns // j).transpose(2, 3).reshape(rank * i * j, -1)


def _decomposed(
    blocks: Iterable[Tensor], size: tuple[int, int], product: Callable[[], Tensor]
) -> tuple[Tensor, Callable[[int], Tensor]]:
    """Decompose a matrix [rows, columns], given in blocks of columns: squared singular values and left vectors.

    Args:
        blocks: the matrix.
        size: rows and columns.
        product: function that returns the matrix times its transpose, [rows, rows].

    Returns:
        float64 [min(rows, columns)], the largest first, and a function: R -> the first left vectors [rows, R],
        orthonormal.
    """
    rows, columns = size
    if rows <= columns:
        squares, vectors = _eigen(product())
        return squares, lambda count: vectors[:, :count]
    matrix = torch.cat(list(blocks), 1)
    squares, vectors = _eigen(matrix.T @ matrix)
    # Division by small singular values would leave the products no longer orthogonal.
    return squares, lambda count: torch.linalg.qr(matrix @ vectors[:, :count]).Q


def _eigen(product: Tensor) -> tuple[Tensor, Tensor]:
    values, vectors = torch.linalg.eigh(product)
    return values.flip(0).clamp(min=0), vectors.flip(1)


def balanced(cores: Sequence[Tensor]) -> list[Tensor]:
    """Scale cores of the same table to numbers of equal size, which suits float16 and a common learning rate."""
    sizes = torch.stack([core.square().mean().sqrt() for core in cores])
    if not sizes.all():
        return list(cores)
    common = sizes.log().mean().exp()
    return [core * (common / size) for core, size in zip(cores, sizes, strict=True)]
