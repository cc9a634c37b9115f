"""The table of tokens of MiniLM, a sentence encoder."""

from collections.abc import Iterator
from typing import Any

import torch
from options import Options
from sentence_encoder.model import WORDS, load, tokens
from text_classifier import sentences
from torch import Tensor, nn
from torch.nn import functional

from tiers.case import Case

_TESTED, _QUICK_TESTED, _BATCH = 400, 50, 50


def cases(options: Options) -> Iterator[Case]:
    """Yield the encoder; sentences and counts are those of SST-2."""
    model, tokenizer = load()
    found = sentences.read(options.data)
    ids, mask = tokens(tokenizer, [text for _, text in found.testing[: _QUICK_TESTED if options.quick else _TESTED]])
    expected = _vectors(model, ids, mask)

    def judge(tried: nn.Module) -> dict[str, float]:
        return {"cosine": float(functional.cosine_similarity(_vectors(tried, ids, mask), expected).mean())}

    counts = _counts(tokenizer, [text for _, text in found.training])
    yield Case("MiniLM", model, {WORDS: counts}, judge, higher_is_better=True)


@torch.no_grad()
def _vectors(model: nn.Module, ids: Tensor, mask: Tensor) -> Tensor:
    """Return the vectors of sentences, [sentences, 384]."""
    return torch.cat([model(*part) for part in zip(ids.split(_BATCH), mask.split(_BATCH), strict=True)])


def _counts(tokenizer: Any, texts: list[str]) -> Tensor:
    """Return the occurrences of each token in texts, [tokens]."""
    flat = [token for ids in tokenizer(texts)["input_ids"] for token in ids]
    return torch.tensor(flat).bincount(minlength=len(tokenizer))
