"""Small BERT models for masked words and for classes of texts; only their table differs between methods."""

from typing import Any

from datasets import PADDING
from tables import rows_of, width_of
from torch import Tensor, nn
from torch.nn import functional
from transformers import BertConfig, BertForMaskedLM, BertForSequenceClassification, PreTrainedModel

from edge_embed.layers.table import CompressedEmbedding
from edge_embed.transformers import replace_table

WIDTH = 128
_SIZES: dict[str, Any] = {
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 256,
    "max_position_embeddings": 512,
}

SPECIAL = 2  # rows behind those of words
_MASK, _FIRST = -2, -1  # of them, from the end


class MaskedWords(nn.Module):
    """Scores of words that are masked.

    Args:
        table: layer that looks up rows [*, width] of ids [*]; the output layer shares it.
    """

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table = table
        self.bert = BertForMaskedLM(_config(table))
        _put(self.bert, table)

    def forward(self, ids: Tensor, masked: Tensor) -> Tensor:
        """Return logits [k, rows] of the k words [batch, words] that are masked, a bool [batch, words]."""
        states = self.bert.bert(*_read(ids, rows_of(self.table))).last_hidden_state[:, 1:]  # without the first token
        logits: Tensor = self.bert.cls(states[masked])
        return logits


class Classifier(nn.Module):
    """Classes of texts.

    Args:
        table: layer that looks up rows [*, width] of ids [*].
        classes: number of classes.
    """

    def __init__(self, table: nn.Module, classes: int) -> None:
        super().__init__()
        self.table = table
        self.bert = BertForSequenceClassification(_config(table, num_labels=classes))
        _put(self.bert, table)

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits [batch, classes] of integers [batch, words], padded at the end."""
        logits: Tensor = self.bert(*_read(ids, rows_of(self.table))).logits
        return logits


def mask_of(table: nn.Module) -> int:
    """Return the id of a masked word."""
    return rows_of(table) + _MASK


def _read(ids: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Return ids with a first token, whose state stands for the text, and the mask of tokens."""
    ids = functional.pad(ids, (1, 0), value=rows + _FIRST)
    return ids, ids != PADDING


def _config(table: nn.Module, **further: Any) -> BertConfig:
    sizes: dict[str, Any] = {"vocab_size": rows_of(table), "hidden_size": width_of(table), "pad_token_id": PADDING}
    return BertConfig(**sizes, **_SIZES, **further)


def _put(model: PreTrainedModel, table: nn.Module) -> None:
    """Put a table into a model, whose output layer shares it."""
    if isinstance(table, CompressedEmbedding):
        replace_table(model, table)
    else:
        model.set_input_embeddings(table)
        model.tie_weights()
