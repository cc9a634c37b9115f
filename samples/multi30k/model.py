"""Translator; only its two tables differ between methods."""

from typing import Any

import torch
from datasets import PADDING
from tied_output import tied_output
from torch import Tensor, nn

WIDTH = 128
PLACES = 32  # maximum words of a sentence
_HEADS = 4
_LAYERS = 1  # of the encoder, and as many of the decoder


class Translator(nn.Module):
    """Scores of the next word of a translation.

    Args:
        table: layers ``source`` and ``target``, each of which looks up rows [*, 128] of ids [*]. The output layer
            shares the second.
    """

    def __init__(self, table: nn.ModuleDict) -> None:
        super().__init__()
        self.table = table
        self.places = nn.ParameterDict({name: torch.randn(PLACES, WIDTH) * 0.1 for name in table})
        self.dropout = nn.Dropout(0.2)
        parts: dict[str, Any] = {"dropout": 0.2, "batch_first": True, "norm_first": True}
        encoder = nn.TransformerEncoderLayer(WIDTH, _HEADS, 4 * WIDTH, **parts)
        decoder = nn.TransformerDecoderLayer(WIDTH, _HEADS, 4 * WIDTH, **parts)
        self.encoder = nn.TransformerEncoder(encoder, _LAYERS, nn.LayerNorm(WIDTH), enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(decoder, _LAYERS, nn.LayerNorm(WIDTH))
        self.words = tied_output(table["target"], bias=True)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return logits [batch, words, rows] of integers [batch, words] of both languages, padded at the end."""
        padding = source == PADDING
        read = self.encoder(self._looked_up("source", source), src_key_padding_mask=padding)  # [batch, words, 128]
        later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        written = self._looked_up("target", target)
        states = self.decoder(written, read, later, memory_key_padding_mask=padding, tgt_is_causal=True)
        logits: Tensor = self.words(self.dropout(states))
        return logits

    def _looked_up(self, name: str, ids: Tensor) -> Tensor:
        """Return rows [batch, words, 128] plus position embeddings."""
        rows: Tensor = self.dropout(self.table[name](ids) * WIDTH**0.5 + self.places[name][: ids.shape[1]])
        return rows
