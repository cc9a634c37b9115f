"""Predictor of clicks; only its three tables differ between methods."""

import torch
from datasets import PADDING
from torch import Tensor, nn

WIDTH = 64


class ClickModel(nn.Module):
    """Logit of the probability that a user clicks an item.

    Args:
        table: layers ``user``, ``item`` and ``recent``, each of which looks up rows [*, 64] of ids [*].
    """

    def __init__(self, table: nn.ModuleDict) -> None:
        super().__init__()
        self.table = table
        self.dropout = nn.Dropout(0.3)
        self.click = nn.Sequential(nn.Linear(5 * WIDTH, WIDTH), nn.ReLU(), nn.Linear(WIDTH, 1))

    def forward(self, users: Tensor, items: Tensor, recent: Tensor) -> Tensor:
        """Return logits [batch] of users and items, integers [batch], and previous items, [batch, items]."""
        user, item = self.dropout(self.table["user"](users)), self.dropout(self.table["item"](items))
        known = (recent != PADDING).sum(1, keepdim=True).clamp(min=1)  # [batch, 1]
        before = self.dropout(self.table["recent"](recent).sum(1) / known)  # [batch, 64]
        logits: Tensor = self.click(torch.cat((user, item, before, user * item, before * item), 1))
        return logits.squeeze(1)
