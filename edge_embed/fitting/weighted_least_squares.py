"""Cores of a train or ring for a table whose rows have different weights: frequent tokens get a lower error.

    minimise  sum_i w_i ||E_i - C_i||^2                          C: the rows of the cores

    w_i  ~  u_1(i_1) u_2(i_2) ... u_N(i_N) = u_i                 u_k: sums of w over all other digits of rows
    G_k[i_k] = H_k[i_k] / sqrt(u_k(i_k))                         H_k: cores of the rows sqrt(u_i) E_i
    H_k[i]  <-  argmin sum_{rows with i_k = i} w_i / u_i ||sqrt(u_i) (E_i - C_i)||^2        k = N, ..., 1

Among all products of one number for each digit, the product of the sums is nearest to w in relative entropy. If w were
such a product, the second line would solve the problem as well as decompositions do (`edge_embed.fitting.cores`).
Otherwise the cores are improved once, from the last to the first, with the others fixed (alternating least squares:
Holtz, Rohwedder and Schneider, "The Alternating Linear Scheme for Tensor Optimization in the Tensor Train Format", SIAM
J. Sci. Comput. 2012). No step increases the sum.

Digits are independent, and small systems are solved directly. A system of a core in between has (R_{k-1} R_k)^2 numbers
and is solved by a few steps of conjugate gradients. A few are enough because the vectors to the left and right are
orthonormal. Of a ring only the last core is improved: systems of the others take R^4 numbers for each prefix of ids.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor

from edge_embed.fitting.dense_table import DenseTable

_LEAST = 1e-2  # relative to the mean of u_k: rare digits still contribute to the vectors
_STEPS = 5  # steps of conjugate gradients; more make rows of weight 0 much longer and hardly improve others
_NUMBERS = 1 << 22  # of matrices in memory at a time
_RIDGE = 1e-10  # relative to the largest number of a system: smaller components stay unchanged


@dataclass(frozen=True)
class RowWeights:
    """Weights of rows, factored by the digits of their places.

    Attributes:
        scales: sqrt(u_k), float64 [I_k] for each core, never 0.
        roots: sqrt(u_i), float64 [I_1 ... I_N].
        left: w_i / u_i, float64 [I_1 ... I_N]; 0 for rows beyond the table.
    """

    scales: Sequence[Tensor]
    roots: Tensor
    left: Tensor

    @classmethod
    def of(cls, weights: Tensor, row_shape: Sequence[int], row_order: Tensor | None = None) -> Self:
        """Factor w_i, the result of `row_weights`, by the place of each row.

        Args:
            weights: float64 [n], the largest 1; the padding row has 0.
            row_shape: I_1 ... I_N.
            row_order: a permutation, int64 [n].
        """
        n, places = len(weights), math.prod(row_shape)
        counted = torch.zeros(places, dtype=torch.float64)
        counted[:n] = weights if row_order is None else weights[row_order.cpu().argsort()]
        counted /= counted.sum() / n
        scales, roots = list[Tensor](), torch.ones(1, dtype=torch.float64)
        for k, size in enumerate(row_shape):
            sums = counted.reshape(math.prod(row_shape[:k]), size, -1).sum((0, 2))
            scales.append((sums / sums.mean()).clamp(min=_LEAST).sqrt())
            roots = (roots[:, None] * scales[-1]).flatten()
        return cls(scales, roots, counted / roots.square())

    def taken_out(self, cores: Sequence[Tensor]) -> list[Tensor]:
        """Return cores of E_i from those of sqrt(u_i) E_i, [I_k, R_{k-1}, J_k, R_k]."""
        return [core / scale[:, None, None, None] for core, scale in zip(cores, self.scales, strict=True)]


def improved(table: DenseTable, weights: RowWeights, cores: Sequence[Tensor]) -> list[Tensor]:
    """Return the cores of sqrt(u_i) E_i after one round of improvement.

    Args:
        table: E [n, d].
        weights: weights of its rows.
        cores: float64 [I_k, R_{k-1}, J_k, R_k], all but G_{N-1} of orthonormal vectors, from `cores.decompose`.
    """
    cores = list(cores)
    blocks = _Blocks(table, weights, cores[-1].shape[0], cores[-1].shape[2])
    cores[-1] = blocks.best_last(_prefixes(cores[:-1]), cores[-1])
    if cores[0].shape[1] > 1:
        return cores
    last = _moved_left(cores, len(cores) - 1)[..., 0]  # [I_N, R, J_N]
    products, grams = blocks.reduced(last)
    for k in range(len(cores) - 2, 0, -1):
        cores[k] = _better(_prefixes(cores[:k])[:, 0], cores[k], products, grams)
        _moved_left(cores, k)
        products, grams = _without(cores[k], products, grams)
    first = cores[0][:, 0].transpose(1, 2)  # [I_1, R_1, J_1]
    cores[0] = _solved(grams, products.transpose(1, 2), first).transpose(1, 2)[:, None]
    return cores


@dataclass(frozen=True)
class _Blocks:
    """The weighted table in blocks of rows that share all digits but the last, read on each pass."""

    table: DenseTable
    weights: RowWeights
    i: int
    j: int

    def best_last(self, left: Tensor, last: Tensor) -> Tensor:
        """Return G_N of least squares.

        Args:
            left: product of the other cores, [rows / I_N, R_0, d / J_N, R_{N-1}].
            last: present G_N, [I_N, R_{N-1}, J_N, R_0].
        """
        left = left.permute(0, 2, 3, 1).flatten(2)  # [rows / I_N, d / J_N, R_{N-1} R_0]
        size = left.shape[2]
        most = max(1, _NUMBERS // size**2)

        def sums_of(places: Sequence[slice]) -> Tensor:
            sums = torch.zeros(self.i, size, size + self.j, dtype=torch.float64)
            for place in places:
                part = left[place.start // self.i : place.stop // self.i]
                rows, counted = self._read(place)
                sums[:, :, size:] += torch.einsum("qcr,qicj->irj", part, rows)
                for some, weights in zip(part.split(most), counted.split(most), strict=True):
                    grams = (some.transpose(1, 2) @ some).flatten(1)
                    sums[:, :, :size] += (weights.T @ grams).reshape(self.i, size, size)
            return sums

        sums = self.table.processes.summed(self._places(), sums_of)
        start = last.permute(0, 1, 3, 2).reshape(self.i, size, self.j)
        best = _solved(sums[:, :, :size], sums[:, :, size:], start)
        return best.reshape(self.i, last.shape[1], last.shape[3], self.j).transpose(2, 3)

    def reduced(self, last: Tensor) -> tuple[Tensor, Tensor]:
        """Return weighted sums over the last digit of rows G_N [rows / I_N, d / J_N, R] and of G_N G_N^T [., R, R].

        Args:
            last: G_N of a train, [I_N, R, J_N].
        """
        grams = torch.einsum("irj,isj->irs", last, last).flatten(1)

        def part_of(place: slice) -> Tensor:
            return torch.einsum("qicj,irj->qcr", self._read(place)[0], last)

        products = torch.cat(list(self.table.processes.each(self._places(), part_of)))
        return products, (self.weights.left.reshape(-1, self.i) @ grams).unflatten(1, (last.shape[1],) * 2)

    def _places(self) -> list[slice]:
        return list(self.table.places(len(self.weights.left), self.i))

    def _read(self, place: slice) -> tuple[Tensor, Tensor]:
        """Return rows times w_i / sqrt(u_i), [Q, I_N, d / J_N, J_N], and w_i / u_i, [Q, I_N]."""
        counted = self.weights.left[place]
        rows = self.table.block(place) * (counted * self.weights.roots[place])[:, None]
        return rows.reshape(-1, self.i, rows.shape[1] // self.j, self.j), counted.reshape(-1, self.i)


def _prefixes(cores: Sequence[Tensor]) -> Tensor:
    """Return the product of G_1 ... G_k: [I_1 ... I_k, R_0, J_1 ... J_k, R_k]."""
    made = cores[0]
    for core in cores[1:]:
        made = torch.einsum("aour,irjs->aioujs", made, core).flatten(0, 1).flatten(2, 3)
    return made


def _moved_left(cores: list[Tensor], k: int) -> Tensor:
    """Make the vectors of G_k orthonormal, move the factor into G_{k-1}, and return G_k."""
    i, before, j, after = cores[k].shape
    vectors, factor = torch.linalg.qr(cores[k].transpose(0, 1).reshape(before, -1).T)
    cores[k] = vectors.T.reshape(-1, i, j, after).transpose(0, 1)
    cores[k - 1] = cores[k - 1] @ factor.T
    return cores[k]


def _better(left: Tensor, core: Tensor, products: Tensor, grams: Tensor) -> Tensor:
    """Return an improved G_k between other cores, [I_k, R, J_k, S].

    Args:
        left: product of the cores before it, [A, J_1 ... J_{k-1}, R].
        core: present G_k.
        products: rows times the cores after it, [A I_k, J_1 ... J_k, S].
        grams: Gram matrices of those cores, [A I_k, S, S].
    """
    i, rank, j, after = core.shape
    products = products.reshape(len(left), i, left.shape[1], j, after)
    grams = grams.reshape(len(left), i, after, after)
    # The same Gram matrix, with at most as many rows as columns.
    small = left if left.shape[1] <= rank else torch.linalg.qr(left, mode="r").R
    flat = small.reshape(-1, rank)
    better = []
    for digit in range(i):
        right = grams[:, digit]  # [A, S, S]

        def system(at: Tensor, right: Tensor = right) -> Tensor:
            rows = (flat @ at.reshape(rank, -1)).reshape(len(right), -1, after)
            return (flat.T @ (rows @ right).reshape(len(flat), -1)).reshape(at.shape)

        wanted = torch.einsum("aur,aujs->rjs", left, products[:, digit])
        better.append(_followed(system, wanted, core[digit]))
    return torch.stack(better)


def _without(core: Tensor, products: Tensor, grams: Tensor) -> tuple[Tensor, Tensor]:
    """Return products and Gram matrices, as for `_better`, that include one more core."""
    i, rank, j, after = core.shape
    products = products.reshape(len(products) // i, i, -1, j, after)
    grams = grams.reshape(len(products), i, after, after)
    product = torch.zeros(len(products), products.shape[2], rank, dtype=torch.float64)
    gram = torch.zeros(len(products), rank, rank, dtype=torch.float64)
    for digit, part in enumerate(core):
        product += torch.einsum("aujs,rjs->aur", products[:, digit], part)
        gram += torch.einsum("ast,rjs,qjt->arq", grams[:, digit], part, part)
    return product, gram


def _solved(systems: Tensor, wanted: Tensor, start: Tensor) -> Tensor:
    """Solve S X = B for each digit, as close to the start as B allows: [I, P, P], [I, P, J], [I, P, J] -> [I, P, J]."""
    ridge = (_RIDGE * systems.abs().amax()).clamp(min=torch.finfo(torch.float64).tiny)
    roots = torch.linalg.cholesky(systems + ridge * torch.eye(systems.shape[1], dtype=torch.float64))
    return start + torch.cholesky_solve(wanted - systems @ start, roots)


def _followed(system: Callable[[Tensor], Tensor], wanted: Tensor, start: Tensor) -> Tensor:
    """Solve one digit's system by a few steps of conjugate gradients (Hestenes and Stiefel 1952)."""
    found, rest = start, wanted - system(start)
    direction, squares = rest, rest.square().sum()
    least = 1e-20 * wanted.square().sum()  # rounding error; a step along it could have any length
    for _ in range(_STEPS):
        if squares <= least:
            break
        image = system(direction)
        step = squares / (direction * image).sum()
        found, rest = found + step * direction, rest - step * image
        direction, squares = rest + rest.square().sum() / squares * direction, rest.square().sum()
    return found
