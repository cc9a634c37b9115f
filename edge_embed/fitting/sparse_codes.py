"""Rows as sparse combinations of given anchors with weights >= 0: a greedy search for many rows at a time.

    row ~ sum_k w_k A[a_k]        w_k > 0; the anchor most aligned with the residual is added, then all w are fitted
    again

Source: non-negative orthogonal matching pursuit; Nguyen, Soussen, Idier and Djermoune, "Non-negative greedy algorithms:
NNOMP" (IEEE Transactions on Signal Processing, 2019). Weights are fitted by the active-set algorithm of Lawson and
Hanson, "Solving Least Squares Problems" (1974), chapter 23, begun from those of the previous step. The search is
therefore their whole algorithm, stopped early.

Each weight has a price, the same for all rows. Rows that gain more from an additional weight therefore get more
weights.

Shapes: Q rows, d columns, A anchors, K maximum number of weights of a row.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

_POWER = 0.5  # exponent of row lengths in the error
_ROUNDS = 2  # times K: rounds in which weights may also be removed
_LEAST_GAIN = 1e-6  # correlation of unit rows and anchors at which float32 still separates anchors
_JITTER = 1e-12  # added to the diagonal of products of unit anchors: two equal anchors then have a solution
_HALVINGS = 60


class Codes(NamedTuple):
    """Sparse codes of rows.

    Attributes:
        anchor_ids: int64 [Q, K]; arbitrary if the weight is zero.
        weights: float64 [Q, K]; above zero, or exactly zero if a row has fewer weights.
        errors: float64 [Q, K + 1]; error of a row, see `encode`, by number of weights; infinite for a number that the
            search skipped.
    """

    anchor_ids: Tensor
    weights: Tensor
    errors: Tensor


class Dictionary:
    """Anchors with the products that a search needs.

    Args:
        anchors: float64 [A, d], each of length 1.
    """

    def __init__(self, anchors: Tensor) -> None:
        self.anchors, self.narrow = anchors, anchors.float()
        self.products = anchors @ anchors.T  # [A, A]

    def combined(self, anchor_ids: Tensor, weights: Tensor) -> Tensor:
        """Return combinations of anchors: both [Q, K] -> [Q, d]."""
        return functional.embedding_bag(anchor_ids, self.anchors, per_sample_weights=weights, mode="sum")


def encode(rows: Tensor, dictionary: Dictionary, most: int, price: float) -> Codes:
    """Return the weights of each row that minimise its error plus the price of its weights.

    The error is ||row - combination||^2 / ||row||^1.5, and 0 for a zero row. With squared lengths, long rows would take
    the weights of all others; with relative errors (a power of 2), short rows would.

    Args:
        rows: float64 [Q, d], finite, with finite squared lengths.
        dictionary: the anchors.
        most: K, at least 1, at most A and d.
        price: price of one weight, >= 0.
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
        cost = now + price * counts.double()  # an integer tensor would give float32
        better = cost < least[going]
        ids = going[better]
        least[ids] = cost[better]
        best_ids[ids], best_weights[ids] = search.anchor_ids[ids], search.weights[ids]
        going = going[counts < most]
    return Codes(best_ids, best_weights * lengths[:, None], errors)


def price_of(errors: Tensor, nonzeros: float) -> float:
    """Return the lowest price at which rows with errors [n, K + 1] have at most ``nonzeros`` weights on average."""
    counts = torch.arange(errors.shape[1], dtype=errors.dtype)
    low, high = 0.0, float(errors[:, 0].max())

    def mean(price: float) -> float:
        return float((errors + price * counts).argmin(1).double().mean())

    if mean(low) <= nonzeros:
        return low
    for _ in range(_HALVINGS):
        price = (low + high) / 2
        low, high = (price, high) if mean(price) > nonzeros else (low, price)
    return high * (1 + 1e-9)  # just above the last tie


@dataclass
class _Search:
    """State of a search for Q unit rows.

    Attributes:
        rows: float64 [Q, d], each of length 1 or 0.
        dictionary: the anchors.
        anchor_ids: int64 [Q, K].
        weights: float64 [Q, K], zero if not active.
        active: bool [Q, K].
        products: float64 [Q, K, K], products of chosen anchors; valid if both are active.
        targets: float64 [Q, K], products of chosen anchors and the row.
        residual: float64 [Q, d], the rows minus their combinations.
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
        """Return the state before the first weight."""
        ids = torch.zeros(len(rows), most, dtype=torch.int64)
        zeros = rows.new_zeros(ids.shape)
        products = rows.new_zeros(*ids.shape, most)
        return cls(rows, dictionary, ids, zeros, ids.bool(), products, zeros.clone(), rows.clone())

    def add(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Add one anchor to each of the rows int64 [R], which have room.

        Returns:
            The rows that got an anchor, int64 [S], and their squared errors [S].
        """
        active = self.active.index_select(0, ids)
        correlations = self.residual.index_select(0, ids).float() @ self.dictionary.narrow.T  # only their order matters
        correlations.scatter_add_(1, self.anchor_ids.index_select(0, ids), active * -2.0)  # excludes active anchors
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
        """Fit the weights of the active anchors by least squares; anchors without a positive weight become inactive."""
        while len(ids):
            active, before = self.active.index_select(0, ids), self.weights.index_select(0, ids)
            after = self._solved(ids, active)
            below = active & (after <= 0)
            # Move towards the solution until a weight would fall below zero; the first to reach zero is removed.
            steps = torch.where(below, before / (before - after), torch.inf)
            step = steps.amin(1, keepdim=True).clamp(max=1)
            active &= ~(below & (steps <= step))
            self.weights.index_copy_(0, ids, torch.where(active, before + step * (after - before), 0).clamp(min=0))
            self.active.index_copy_(0, ids, active)
            ids = ids[below.any(1)]

    def _solved(self, ids: Tensor, active: Tensor) -> Tensor:
        used = int(active.any(0).nonzero().max()) + 1 if active.any() else 0  # the first free slot is always used
        some = active[:, :used]
        matrix = self.products[:, :used, :used].index_select(0, ids) * (some[:, :, None] & some[:, None, :])
        matrix.diagonal(dim1=1, dim2=2).add_(torch.where(some, _JITTER, 1))
        solved = self.weights.new_zeros(active.shape)
        solved[:, :used] = torch.linalg.solve(matrix, self.targets[:, :used].index_select(0, ids) * some)
        return solved
