"""Density of attention: the share of probabilities above 0 among the keys that a query may attend to."""

from typing import NamedTuple

import numpy as np
import torch
from datasets import PADDING
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.study.attention import density, recorded_attention
from multi30k.model import Translator


class Attention(NamedTuple):
    """Attention of a layer.

    Attributes:
        probabilities: [sentences, attention heads, queries, keys]; those of padding are 0, and so do not count.
        allowed: bool, broadcasts to them: the keys that a query may attend to.
    """

    probabilities: NDArray[np.float32]
    allowed: NDArray[np.bool_]


def attention_of(model: Translator, source: Tensor, target: Tensor) -> dict[str, Attention]:
    """Return the attention of each layer.

    Args:
        model: the translator, in eval mode.
        source: int64 [sentences, words], padded at the end.
        target: the same of the translations.
    """
    with torch.no_grad(), recorded_attention(model) as recorded:
        model(source, target)
    found = {}
    for name, (probabilities,) in recorded.items():
        is_written, reads_written = name.startswith("decoder"), name.startswith("decoder") and "self_attn" in name
        queries, keys = (target if is_written else source), (target if reads_written else source)
        allowed = (keys != PADDING)[:, None, None]  # [sentences, 1, 1, keys]
        if reads_written:
            allowed = allowed & torch.ones(keys.shape[1], keys.shape[1], dtype=torch.bool).tril()
        counted = (queries != PADDING)[:, None, :, None].numpy()  # queries without probabilities do not count
        found[name] = Attention(probabilities * counted, allowed.numpy())
    return found


def densities(model: Translator, source: Tensor, target: Tensor) -> dict[str, float]:
    """Return the mean density of the attention heads of each layer, in percent; see `attention_of`."""
    layers = attention_of(model, source, target)
    return {name: 100 * float(density(*layer).mean()) for name, layer in layers.items()}
