"""Language model; only its tables differ between methods: one that the output layer may share, or one for each."""

from tables import rows_of, width_of
from tied_output import small_embedding, tied_output
from torch import Tensor, nn

import edge_embed

WIDTH = 128

TABLES = {
    "dense": lambda words: small_embedding(words, WIDTH),
    "dpq": lambda words: edge_embed.DPQEmbedding(words, WIDTH, num_codes=16, num_groups=32, variant="vq"),
    "ant": lambda words: edge_embed.ANTEmbedding(words, WIDTH, num_anchors=100),
    "tt": lambda words: edge_embed.TTEmbedding(words, WIDTH, rank=16),
}


class LanguageModel(nn.Module):
    """Scores of the next word after every word of a text.

    Args:
        table: layer that looks up rows [*, width] of ids [*], or layers ``input`` and ``output``, of which the output
            layer shares the second.
        tied: whether the output layer shares a table; otherwise it has dense rows of its own.
    """

    def __init__(self, table: nn.Module, tied: bool = True) -> None:
        super().__init__()
        self.table = table
        last = table["output"] if isinstance(table, nn.ModuleDict) else table
        width = width_of(last)
        self.lstm = nn.LSTM(width, width, batch_first=True)
        self.dropout = nn.Dropout(0.3)
        self.words = tied_output(last, bias=True) if tied else nn.Linear(width, rows_of(last))

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits [batch, words, rows] of integers [batch, words]."""
        first = self.table["input"] if isinstance(self.table, nn.ModuleDict) else self.table
        states, _ = self.lstm(self.dropout(first(ids)))  # [batch, words, width]
        logits: Tensor = self.words(self.dropout(states))
        return logits
