"""Classifier of texts; only its table differs between methods."""

from tables import width_of
from torch import Tensor, nn

import edge_embed

WIDTH = 128

TABLES = {
    "dense": lambda words: nn.EmbeddingBag(words, WIDTH, mode="mean", padding_idx=0),
    "dpq": lambda words: edge_embed.DPQEmbeddingBag(
        words, WIDTH, num_codes=16, num_groups=16, variant="vq", padding_idx=0, mode="mean"
    ),
    "ant": lambda words: edge_embed.ANTEmbeddingBag(words, WIDTH, num_anchors=10, padding_idx=0, mode="mean"),
    "tt": lambda words: edge_embed.TTEmbeddingBag(words, WIDTH, rank=16, padding_idx=0, mode="mean"),
}


class Classifier(nn.Module):
    """Mean of the vectors of a text's words, and a linear layer.

    Args:
        table: layer that reduces ids [batch, words] to the means of their rows [batch, width], without padding.
        classes: number of classes.
    """

    def __init__(self, table: nn.Module, classes: int) -> None:
        super().__init__()
        self.table = table
        self.classes = nn.Linear(width_of(table), classes)

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits [batch, classes] of integers [batch, words]."""
        logits: Tensor = self.classes(self.table(ids))
        return logits
