"""Recommender; only its table, which it uses twice, differs between methods."""

from tied_output import small_embedding, tied_output
from torch import Tensor, nn

import edge_embed

WIDTH = 64

TABLES = {
    "dense": lambda items: small_embedding(items, WIDTH, padding_idx=0),
    "dpq": lambda items: edge_embed.DPQEmbedding(
        items, WIDTH, num_codes=16, num_groups=16, variant="vq", padding_idx=0
    ),
    "ant": lambda items: edge_embed.ANTEmbedding(items, WIDTH, num_anchors=50, padding_idx=0),
    "tt": lambda items: edge_embed.TTEmbedding(items, WIDTH, rank=16, padding_idx=0),
}


class Recommender(nn.Module):
    """Scores of all items as the next one of a user.

    Args:
        table: layer that looks up rows [*, 64] of ids [*].
    """

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table = table
        self.gru = nn.GRU(WIDTH, WIDTH, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.wanted = nn.Linear(WIDTH, WIDTH)
        self.items = tied_output(table, bias=False)

    def states(self, ids: Tensor) -> Tensor:
        """Return the states after each item: integers [batch, items] -> [batch, items, 64]."""
        states, _ = self.gru(self.dropout(self.table(ids)))
        wanted: Tensor = self.wanted(self.dropout(states))
        return wanted

    def forward(self, ids: Tensor) -> Tensor:
        """Return scores of all items [batch, rows] for integers [batch, items], the latest last."""
        scores: Tensor = self.items(self.states(ids)[:, -1])
        return scores

    def scores_of(self, states: Tensor, items: Tensor) -> Tensor:
        """Return scores [*, k] of a few items, integers [k], for training: all items would take much longer."""
        scores: Tensor = states @ self.table(items).t()
        return scores
