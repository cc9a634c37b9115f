"""Rows as sparse combinations, with weights >= 0, of given anchors: a greedy search, for many rows at a time.

    row ~ sum_k w_k A[a_k]        w_k > 0; the anchor that points most along what is left is added, all w are found anew

Source: non-negative orthogonal matching pursuit; Nguyen, Soussen, Idier and Djermoune, "Non-negative greedy algorithms:
NNOMP" (IEEE Transactions on Signal Processing, 2019). Weights are found by the active set of Lawson and Hanson,
"Solving Least Squares Problems" (1974), chapter 23, begun from those of the step before: which is their whole
algorithm, stopped early.

A row may have as many weights as pay: each costs a price, the same for all rows, so that rows that gain more by one
more weight get it.

Shapes: Q rows, d columns, A anchors, K the most weights of a row.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

_POWER = 0.5  # of the lengths that errors are measured with
_ROUNDS = 2  # times K: rounds in which weights can be taken away again
_LEAST_GAIN = 1e-6  # correlation, of unit rows and anchors, with which float32 can still tell anchors apart
_JITTER = 1e-12  # on the diagonal of unit anchors' products, so that two equal anchors give a solution
_HALVINGS = 60


class Codes(NamedTuple):
    """Of rows.

    Attributes:
        anchor_ids: int64 [Q, K]; any where the weight is zero.
        weights: float64 [Q, K]; above zero, or exactly zero where a row has fewer.
        errors: float64 [Q, K + 1]; what is left of a row, see `encode`, by the number of weights; infinite for a number
            that the search left out.
    """

    anchor_ids: Tensor
    weights: Tensor
    errors: Tensor


class Dictionary:
    """Anchors, and what a search needs of them.

    Args:
        anchors: float64 [A, d], each of length 1.
    """

    def __init__(self, anchors: Tensor) -> None:
        self.anchors, self.narrow = anchors, anchors.float()
        self.products = anchors @ anchors.T  # [A, A]

    def combined(self, anchor_ids: Tensor, weights: Tensor) -> Tensor:
        """Both [Q, K] -> [Q, d]."""
        return functional.embedding_bag(anchor_ids, self.anchors, per_sample_weights=weights, mode="sum")


def encode(rows: Tensor, dictionary: Dictionary, most: int, price: float) -> Codes:
    """The weights of each row with which its error and price times their number are least.

    The error is ||row - combination||^2 / ||row||^1.5, of a zero row 0. By squared lengths alone long rows would take
    the weights of all others, by relative ones (a power of 2) short rows would take theirs.

    Args:
        rows: float64 [Q, d], finite, of lengths whose squares are so.
        dictionary: the anchors.
        most: K, at least 1; at most A and d.
        price: of one weight, >= 0.
    """
    lengths = rows.norm(dim=1)
    search = _Search.of(rows / lengths.clamp(min=torch.finfo(torch.float64).tiny)[:, None], dictionary, most)
    errors = rows.new_full((len(rows), most + 1), torch.inf)
    scale = lengths**_POWER
    errors[:, 0] = scale
    best_ids, best_weights, least = search.anchor_ids.clone(), search.weights.clone(), scale.clone()
    going = lengths.nonzero().flatten()
    for _ in range(_ROUNDS * most):
        going, left = search.add(going)
        if not len(going):
            break
        counts = search.active[going].sum(1)
        now = left * scale[going]
        errors[going, counts] = torch.minimum(errors[going, counts], now)
        cost = now + price * counts.double()  # of integers it would be float32
        better = cost < least[going]
        ids = going[better]
        least[ids] = cost[better]
        best_ids[ids], best_weights[ids] = search.anchor_ids[ids], search.weights[ids]
        going = going[counts < most]
    return Codes(best_ids, best_weights * lengths[:, None], errors)


def price_of(errors: Tensor, nonzeros: float) -> float:
    """The least price at which rows with these errors [n, K + 1] have at most so many weights on average."""
    counts = torch.arange(errors.shape[1], dtype=errors.dtype)
    low, high = 0.0, float(errors[:, 0].max())

    def mean(price: float) -> float:
        return float((errors + price * counts).argmin(1).double().mean())

    if mean(low) <= nonzeros:
        return low
    for _ in range(_HALVINGS):
        price = (low + high) / 2
        low, high = (price, high) if mean(price) > nonzeros else (low, price)
    return high * (1 + 1e-9)  # beyond the last tie


@dataclass
class _Search:
    """The state of Q unit rows.

    Attributes:
        rows: float64 [Q, d], each of length 1 or 0.
        dictionary: the anchors.
        anchor_ids: int64 [Q, K].
        weights: float64 [Q, K], zero where not active.
        active: bool [Q, K].
        products: float64 [Q, K, K], of the chosen anchors with one another; right where both are active.
        targets: float64 [Q, K], of the chosen anchors with the row.
        residual: float64 [Q, d], what is left of the rows.
    """

    rows: Tensor
    dictionary: Dictionary
    anchor_ids: Tensor
    weights: Tensor
    active: Tensor
    products: Tensor
    targets: Tensor
    residual: Tensor

    @classmethod
    def of(cls, rows: Tensor, dictionary: Dictionary, most: int) -> "_Search":
        """Without any weight yet."""
        ids = torch.zeros(len(rows), most, dtype=torch.int64)
        zeros = rows.new_zeros(ids.shape)
        products = rows.new_zeros(*ids.shape, most)
        return cls(rows, dictionary, ids, zeros, ids.bool(), products, zeros.clone(), rows.clone())

    def add(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Give rows int64 [R], which have room, one more anchor.

        Returns:
            Those rows that took one, int64 [S], and their squared errors [S].
        """
        active = self.active.index_select(0, ids)
        correlations = self.residual.index_select(0, ids).float() @ self.dictionary.narrow.T  # only the order counts
        correlations.scatter_add_(1, self.anchor_ids.index_select(0, ids), active * -2.0)  # never twice
        gain, anchor = correlations.max(1)
        some = gain > _LEAST_GAIN
        ids, anchor, slot = ids[some], anchor[some], active[some].int().argmin(1)
        self.anchor_ids[ids, slot] = anchor
        self.active[ids, slot] = True
        products = self.dictionary.products[anchor[:, None], self.anchor_ids.index_select(0, ids)]
        self.products[ids, slot] = products
        self.products[ids, :, slot] = products
        self.targets[ids, slot] = (self.rows.index_select(0, ids) * self.dictionary.anchors[anchor]).sum(1)
        self._refit(ids)
        residual = self.rows.index_select(0, ids) - self.dictionary.combined(
            self.anchor_ids.index_select(0, ids), self.weights.index_select(0, ids)
        )
        self.residual.index_copy_(0, ids, residual)
        return ids, residual.square().sum(1)

    def _refit(self, ids: Tensor) -> None:
        """Weights of least error over the active anchors; those that would not be above zero become inactive."""
        while len(ids):
            active, before = self.active.index_select(0, ids), self.weights.index_select(0, ids)
            after = self._solved(ids, active)
            below = active & (after <= 0)
            # As far towards the solution as no weight falls below zero; the first to reach it is taken away.
            steps = torch.where(below, before / (before - after), torch.inf)
            step = steps.amin(1, keepdim=True).clamp(max=1)
            active &= ~(below & (steps <= step))
            self.weights.index_copy_(0, ids, torch.where(active, before + step * (after - before), 0).clamp(min=0))
            self.active.index_copy_(0, ids, active)
            ids = ids[below.any(1)]

    def _solved(self, ids: Tensor, active: Tensor) -> Tensor:
        used = int(active.any(0).nonzero().max()) + 1 if active.any() else 0  # the first free place is always taken
        some = active[:, :used]
        matrix = self.products[:, :used, :used].index_select(0, ids) * (some[:, :, None] & some[:, None, :])
        matrix.diagonal(dim1=1, dim2=2).add_(torch.where(some, _JITTER, 1))
        solved = self.weights.new_zeros(active.shape)
        solved[:, :used] = torch.linalg.solve(matrix, self.targets[:, :used].index_select(0, ids) * some)
        return solved
