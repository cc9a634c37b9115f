"""The table of tokens of MiniLM, a sentence encoder."""

from collections.abc import Iterator
from typing import Any

import torch
from options import Options
from sentence_encoder.model import WORDS, load, rank_correlation, similarities, tokens, vectors
from text_classifier import sentences
from torch import Tensor, nn
from torch.nn import functional

from tiers.case import Case

_TESTED, _QUICK_TESTED = 400, 50


def cases(options: Options) -> Iterator[Case]:
    """Yield the encoder; sentences and counts are those of SST-2."""
    model, tokenizer = load()
    found = sentences.read(options.data)
    ids, mask = tokens(tokenizer, [text for _, text in found.testing[: _QUICK_TESTED if options.quick else _TESTED]])
    expected = vectors(model, ids, mask)
    expected_similarities = similarities(expected)

    def judge(tried: nn.Module) -> dict[str, float]:
        found = vectors(tried, ids, mask)
        cosine = functional.cosine_similarity(found, expected).mean()
        return {
            "cosine": float(cosine),
            "rank correlation": rank_correlation(expected_similarities, similarities(found)),
        }

    counts = _counts(tokenizer, [text for _, text in found.training])
    yield Case("MiniLM", model, {WORDS: counts}, judge, higher_is_better=True)


def _counts(tokenizer: Any, texts: list[str]) -> Tensor:
    """Return the occurrences of each token in texts, [tokens]."""
    flat = [token for ids in tokenizer(texts)["input_ids"] for token in ids]
    return torch.tensor(flat).bincount(minlength=len(tokenizer))
