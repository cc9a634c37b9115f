"""Compresses the table of words, with and without distillation, then exports, validates and compares the models."""

import copy
from collections.abc import Sequence
from typing import Any

import torch
from comparison import Comparison, Result
from options import Options
from rich.console import Console
from rich.progress import track
from text_classifier import sentences
from torch import Tensor, nn
from torch.nn import functional

import edge_embed
from sentence_encoder.model import WORDS, load, rank_correlation, similarities, tokens, vectors

_SIZES: dict[str, Any] = {"num_codes": 64, "num_groups": 192}
_COMPARED, _STEPS, _QUICK_STEPS, _BATCH = 200, 300, 30, 32
_RATE = 3e-4


def run(options: Options) -> list[Result]:
    """Compare MiniLM with its dense table, with compressed tables, and with a distilled one."""
    model, tokenizer = load()
    found = sentences.read(options.data)
    ids, mask = tokens(tokenizer, [text for _, text in found.testing[:_COMPARED]])
    expected = similarities(vectors(model, ids, mask))

    def alike(tried: nn.Module) -> dict[str, float]:
        return {"rank correlation": rank_correlation(similarities(vectors(tried, ids, mask)), expected)}

    comparison = Comparison(options.output, (ids[:2], mask[:2]), options.quick)
    comparison.add("dense", model, {"rank correlation": 1.0})

    learner, _ = edge_embed.compress(model, "dpq", modules=[WORDS], trainable=True, **_SIZES)
    small = frozen(copy.deepcopy(learner))
    comparison.add("dpq", small, alike(small))
    rotated, _ = edge_embed.compress(model, "opq", modules=[WORDS], value_type="float16", **_SIZES)
    comparison.add("opq", rotated, alike(rotated))
    texts = [text for _, text in found.training]
    steps = _QUICK_STEPS if options.quick else _STEPS
    batches = [tokens(tokenizer, texts[at :: len(texts) // _BATCH][:_BATCH]) for at in range(steps)]
    distil(model, learner, batches)
    taught = frozen(learner)
    comparison.add("dpq_distilled", taught, alike(taught))
    return comparison.results


def distil(teacher: nn.Module, learner: nn.Module, batches: Sequence[tuple[Tensor, Tensor]]) -> None:
    """Train the table of the learner so that sentences get the vectors of the teacher."""
    words = learner.get_submodule(WORDS)
    assert isinstance(words, edge_embed.DPQEmbedding)
    words.train()  # only the table: the encoder stays without dropout
    optimizer = torch.optim.Adam(words.parameters(), lr=_RATE)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, len(batches))
    for batch in track(batches, "distillation", console=Console(stderr=True)):
        with torch.no_grad():
            expected = teacher(*batch)
        optimizer.zero_grad()
        loss = functional.mse_loss(learner(*batch), expected) + words.regularization_loss()
        loss.backward()
        optimizer.step()
        schedule.step()


def frozen(learner: nn.Module) -> nn.Module:
    """Return the same model with the table as it is stored."""
    words = learner.get_submodule(WORDS)
    assert isinstance(words, edge_embed.DPQEmbedding)
    learner.set_submodule(WORDS, words.freeze(value_type="float16"))
    return learner
