"""Matrix factorisation; only its two tables differ between methods."""

import torch
from torch import Tensor, nn


class Factors(nn.Module):
    """Inner products of the rows of users and items, added to the mean of all ratings.

    Args:
        table: layers ``user`` and ``item``, each of which looks up rows [*, width] of ids [*].
        mean: mean of the ratings in training.
    """

    def __init__(self, table: nn.ModuleDict, mean: float) -> None:
        super().__init__()
        self.table = table
        self.mean = nn.Parameter(torch.tensor(mean))

    def forward(self, users: Tensor, items: Tensor) -> Tensor:
        """Return ratings [batch] of users and items, integers [batch]."""
        found: Tensor = self.mean + (self.table["user"](users) * self.table["item"](items)).sum(-1)
        return found
