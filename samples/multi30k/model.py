"""Translator; only its two tables differ between methods."""

from typing import Any

import torch
from datasets import PADDING
from tables import rows_of, width_of
from tied_output import tied_output
from torch import Tensor, nn

WIDTH = 128
PLACES = 32  # maximum words of a sentence
_HEADS = 4


class Translator(nn.Module):
    """Scores of the next word of a translation.

    Args:
        table: layers ``source`` and ``target``, each of which looks up rows [*, width] of ids [*].
        num_layers: layers of the encoder, and as many of the decoder.
        places: maximum words of a sentence.
        tied: whether the output layer shares the second table; otherwise it has dense rows of its own.
    """

    def __init__(self, table: nn.ModuleDict, num_layers: int = 1, places: int = PLACES, tied: bool = True) -> None:
        super().__init__()
        self.table, width = table, width_of(table["target"])
        self.places = nn.ParameterDict({name: torch.randn(places, width) * 0.1 for name in table})
        self.dropout = nn.Dropout(0.2)
        parts: dict[str, Any] = {"dropout": 0.2, "batch_first": True, "norm_first": True}
        encoder = nn.TransformerEncoderLayer(width, _HEADS, 4 * width, **parts)
        decoder = nn.TransformerDecoderLayer(width, _HEADS, 4 * width, **parts)
        self.encoder = nn.TransformerEncoder(encoder, num_layers, nn.LayerNorm(width), enable_nested_tensor=False)
        self.decoder = nn.TransformerDecoder(decoder, num_layers, nn.LayerNorm(width))
        target = table["target"]
        self.words = tied_output(target, bias=True) if tied else nn.Linear(width, rows_of(target))

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        """Return logits [batch, words, rows] of integers [batch, words] of both languages, padded at the end."""
        read, padding = self.read(source), source == PADDING
        later = torch.ones(target.shape[1], target.shape[1], dtype=torch.bool).triu(1)
        written = self.looked_up("target", target)
        states = self.decoder(written, read, later, memory_key_padding_mask=padding, tgt_is_causal=True)
        logits: Tensor = self.words(self.dropout(states))
        return logits

    def read(self, source: Tensor) -> Tensor:
        """Return the states [batch, words, width] of the words of a sentence."""
        states: Tensor = self.encoder(self.looked_up("source", source), src_key_padding_mask=source == PADDING)
        return states

    def looked_up(self, name: str, ids: Tensor, first: int = 0) -> Tensor:
        """Return rows [batch, words, width] plus position embeddings, from position ``first`` on."""
        looked_up = self.table[name](ids)
        places = self.places[name][first : first + ids.shape[1]]
        rows: Tensor = self.dropout(looked_up * looked_up.shape[-1] ** 0.5 + places)
        return rows
