"""Replaces the tables of three trained models by compressed ones, then exports, validates and compares the models."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from comparison import Comparison, Result
from datasets import unpacked
from options import Options
from torch import Tensor, nn

import edge_embed
from edge_embed.report.results.compressed import CompressReport
from pretrained import language_model, recommender, segmenter

_WORDS, _QUICK_WORDS = 50_000, 5_000
_USERS = 200

Sizes = Mapping[str, Mapping[str, Any]]

_DPQ: Mapping[str, Any] = {"num_codes": 64, "value_type": "float16"}
_ANT: Mapping[str, Any] = {"weight_type": "int8", "value_type": "float16"}
_LOW_RANK: Mapping[str, Any] = {"value_type": "float16"}

# Sizes for tables of 100 columns, of 16 and 32, and of 32.
LANGUAGE_SIZES: Sizes = {
    "dpq": {**_DPQ, "num_groups": 50},
    "opq": {**_DPQ, "num_groups": 50, "num_codes": 16},
    "ant": {**_ANT, "num_anchors": 256, "nonzeros": 8},
    "low_rank": {**_LOW_RANK, "rank": 40},
}
SEGMENTER_SIZES: Sizes = {
    "dpq": {**_DPQ, "num_groups": 8},
    "ant": {**_ANT, "num_anchors": 64, "nonzeros": 4},
    "low_rank": {**_LOW_RANK, "rank": 8},
}
RECOMMENDER_SIZES: Sizes = {
    "dpq": {**_DPQ, "num_groups": 16},
    "ant": {**_ANT, "num_anchors": 64, "nonzeros": 6},
    "low_rank": {**_LOW_RANK, "rank": 12},
}


def compare_language_models(options: Options) -> list[Result]:
    """Compare language models: both tables are compressed, of the input and of the output layer."""
    with unpacked(options.data, "ptb-rnnlm") as folder, unpacked(options.data, "agnews20k") as news:
        model = language_model.load(folder / "ptb_rnnlm_100.npz")
        words = (folder / "ptb_vocab_by_id.txt").read_text(encoding="utf-8").split()
        limit = _QUICK_WORDS if options.quick else _WORDS
        text = language_model.business_news(news / "test.csv", words, limit)
    comparison = Comparison(options.output, text[None, :20], options.quick, prefix="words ")

    def score(tried: nn.Module) -> dict[str, float]:
        changes = language_model.changes(tried, model, text)
        return {**changes, "perplexity": language_model.perplexity(tried, text)}

    return _compared(comparison, model, ["table", "output"], LANGUAGE_SIZES, score)


def compare_segmenters(options: Options) -> list[Result]:
    """Compare segmenters: the tables of characters and of syllables are compressed."""
    with unpacked(options.data, "pth-attacut") as folder:
        model = segmenter.load(folder)
        texts = segmenter.random_syllables(folder, *((8, 100) if options.quick else (32, 400)))
    decisions = _decisions(model, texts)
    comparison = Comparison(options.output, tuple(part[:2, :30] for part in texts), options.quick, prefix="thai ")

    def score(tried: nn.Module) -> dict[str, float]:
        return {"same decisions": float((_decisions(tried, texts) == decisions).float().mean())}

    return _compared(comparison, model, ["ch_embeddings", "sy_embeddings"], SEGMENTER_SIZES, score)


def compare_recommenders(options: Options) -> list[Result]:
    """Compare recommenders: the tables of users and of films are compressed."""
    with unpacked(options.data, "ncf-ml1m-weights") as folder:
        model = recommender.load(folder)
    num_items = len(model.state_dict()["items.weight"])
    users = torch.randperm(len(model.state_dict()["users.weight"]))[:_USERS]
    expected = recommender.recommended(model, users, num_items)
    example = users[:20], torch.arange(20)
    comparison = Comparison(options.output, example, options.quick, prefix="films ")

    def score(tried: nn.Module) -> dict[str, float]:
        return {"same films": recommender.in_common(recommender.recommended(tried, users, num_items), expected)}

    return _compared(comparison, model, ["users", "items"], RECOMMENDER_SIZES, score)


def _compared(
    comparison: Comparison,
    model: nn.Module,
    tables: list[str],
    methods: Sizes,
    score: Callable[[nn.Module], dict[str, float]],
) -> list[Result]:
    comparison.add("dense", model, {"row error": 0.0, **score(model)})
    for method, sizes in methods.items():
        small, report = edge_embed.compress(model, method, modules=tables, **sizes)
        comparison.add(method, small, {"row error": _error(report), **score(small)})
    return comparison.results


def _error(report: CompressReport) -> float:
    """Return the reconstruction error of the table with the larger one."""
    return max(table.fidelity.relative_error for table in report.tables if table.fidelity)


@torch.no_grad()
def _decisions(model: nn.Module, texts: tuple[Tensor, Tensor]) -> Tensor:
    """Return whether a word begins at each character, bool [rows, characters]."""
    begins: Tensor = model(*texts) > 0
    return begins


def run(options: Options) -> list[Result]:
    """Replace the tables of three models that others trained; nothing is trained here."""
    return [*compare_language_models(options), *compare_segmenters(options), *compare_recommenders(options)]
