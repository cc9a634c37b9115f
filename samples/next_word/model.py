"""The model, as a user would write it; only the embedding is from edge_embed."""

from torch import Tensor, nn

from edge_embed import DPQEmbedding


class NextWord(nn.Module):
    """Scores of the next word after every word of a text.

    The input may contain every word of the vocabulary; the ``num_answers`` most frequent ones can be predicted.

    Args:
        num_words: size of the vocabulary.
        num_answers: number of words that can be predicted.
        width: embedding dimension d.
        hidden: size of the LSTM's state.
    """

    def __init__(self, num_words: int, num_answers: int, width: int = 256, hidden: int = 128) -> None:
        super().__init__()
        self.embedding = DPQEmbedding(num_words, width, num_codes=16, num_groups=32, variant="vq", padding_idx=0)
        self.lstm = nn.LSTM(width, hidden, batch_first=True)
        self.dropout = nn.Dropout(0.2)
        self.answer = nn.Linear(hidden, num_answers)

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits [batch, sequence, num_answers] of integers [batch, sequence]."""
        states, _ = self.lstm(self.embedding(ids))  # [batch, sequence, hidden]
        logits: Tensor = self.answer(self.dropout(states))
        return logits
