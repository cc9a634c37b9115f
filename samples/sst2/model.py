"""Classifier of phrases; only its table differs between methods."""

import torch
from datasets import PADDING
from tables import width_of
from torch import Tensor, nn

WIDTH = 128


class PhraseClassifier(nn.Module):
    """Last state of an LSTM, and a linear layer.

    Args:
        table: layer that looks up rows [batch, words, width] of ids [batch, words].
        classes: number of classes.
    """

    def __init__(self, table: nn.Module, classes: int) -> None:
        super().__init__()
        self.table, width = table, width_of(table)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.dropout = nn.Dropout(0.3)
        self.classes = nn.Linear(width, classes)

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits [batch, classes] of integers [batch, words], padded at the end."""
        states, _ = self.lstm(self.dropout(self.table(ids)))  # [batch, words, width]
        last = (ids != PADDING).sum(1).sub(1).clamp(min=0)  # [batch]
        logits: Tensor = self.classes(self.dropout(states[torch.arange(len(ids)), last]))
        return logits
