"""The classifier; only its table differs between methods."""

import torch
from datasets import PADDING
from torch import Tensor, nn

WIDTH = 128


class PhraseClassifier(nn.Module):
    """The last state of an LSTM, and a linear layer.

    Args:
        table: takes ids [batch, words] and gives their rows [batch, words, 128].
    """

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table = table
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.dropout = nn.Dropout(0.3)
        self.classes = nn.Linear(WIDTH, 2)

    def forward(self, ids: Tensor) -> Tensor:
        """Integers [batch, words], padding at the end -> logits [batch, 2]."""
        states, _ = self.lstm(self.dropout(self.table(ids)))  # [batch, words, 128]
        last = (ids != PADDING).sum(1).sub(1).clamp(min=0)  # [batch]
        logits: Tensor = self.classes(self.dropout(states[torch.arange(len(ids)), last]))
        return logits
