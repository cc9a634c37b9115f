"""Curvature of the distance between models by the rows of a table, at the rows of the dense model.

    distance(E + delta) = 1/2 sum over rows i of  delta_i^T C_i delta_i + ...          no slope: the distance is 0 there
    C_i = expected g_i g_i^T ~ s_i H                                                   trace H = 1

g is the gradient of a random scalar (`edge_embed.calibration.distance.probe`). One matrix for all rows, with a factor
for each row, is what some hundred examples suffice for. Sources: "New Insights and Perspectives on the Natural
Gradient Method" (Martens 2020) for the Fisher information as curvature; "Optimizing Neural Networks with
Kronecker-factored Approximate Curvature" (Martens and Grosse 2015) for products of two factors.
"""

import torch
from torch import Tensor

_OF_ROWS = 0.1  # of the mean factor, added to each: a row that is rare in the examples has a noisy one
_OF_COLUMNS = 0.1  # share of the identity in H
_SCALE = 1000  # of weights, to which a fit of tiers adds 1/2


class Curvature:
    """Sums over examples, for the rows of a table.

    Args:
        num_rows: rows n.
        dim: columns d.
    """

    def __init__(self, num_rows: int, dim: int) -> None:
        self._of_rows, self._matrix = torch.zeros(num_rows), torch.zeros(dim, dim)

    def add(self, gradient: Tensor) -> None:
        """Add a random gradient, [n, d]."""
        self._of_rows += gradient.square().sum(1)
        self._matrix += gradient.t() @ gradient

    @property
    def is_zero(self) -> bool:
        """Return whether no output depends on the table."""
        return not self._of_rows.any()

    def of_rows(self) -> Tensor:
        """Return the factors s, relative to their mean, float32 [n]."""
        return self._of_rows / self._of_rows.mean() + _OF_ROWS

    def weights(self) -> Tensor:
        """Return the factors as weights of rows in a fit to dense rows, float32 [n], positive."""
        return _SCALE * self.of_rows()

    def turned(self, rotation: Tensor | None) -> "Curvature":
        """Return the curvature by rows times R^T, with R float [d, d] orthogonal, or None."""
        if rotation is None:
            return self
        found = Curvature(len(self._of_rows), len(self._matrix))
        found._of_rows, found._matrix = self._of_rows, rotation.float() @ self._matrix @ rotation.float().t()
        return found

    def matrix(self) -> Tensor:
        """Return H, float32 [d, d], positive definite."""
        dim = len(self._matrix)
        return (1 - _OF_COLUMNS) * self._matrix / self._matrix.trace() + _OF_COLUMNS * torch.eye(dim) / dim
