"""The model, as a user would write it; only the table is from edge_embed."""

from torch import Tensor, nn

import edge_embed

WIDTH = 64
FILTERS = 64


def table(num_words: int) -> edge_embed.DPQEmbedding:
    """Return the table: 8 bytes a word in place of 256."""
    return edge_embed.DPQEmbedding(num_words, WIDTH, num_codes=16, num_groups=16, variant="vq", padding_idx=0)


class SentenceClassifier(nn.Module):
    """Convolution over three words, the maximum of each filter, and a linear layer.

    Rows of padding are zero, and so are their results of the convolution, which has no bias. A sentence therefore has
    the same logits for every padded length.

    Args:
        table: layer that looks up rows [batch, words, 64] of ids [batch, words].
        classes: number of classes.
    """

    def __init__(self, table: nn.Module, classes: int) -> None:
        super().__init__()
        self.table = table
        self.filters = nn.Conv1d(WIDTH, FILTERS, kernel_size=3, padding=1, bias=False)
        self.dropout = nn.Dropout(0.3)
        self.classes = nn.Linear(FILTERS, classes)

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits [batch, classes] of integers [batch, words]."""
        found = self.filters(self.table(ids).transpose(1, 2)).relu().amax(2)  # [batch, 64]
        logits: Tensor = self.classes(self.dropout(found))
        return logits
