"""Takes two trained models, puts compressed tables in the place of theirs, exports, validates and compares."""

import copy
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from comparison import Comparison, Result
from datasets import unpacked
from options import Options
from torch import Tensor, nn

import edge_embed
from pretrained import fit, language_model, segmenter

_WORDS, _QUICK_WORDS = 50_000, 5_000

# A fit for the tables of the language model (100 wide), and for those of the segmenter (16 and 32 wide).
LANGUAGE_FITS: Mapping[str, Callable[[fit.Rows], fit.Packed]] = {
    "dpq": lambda rows: fit.dpq(rows, num_codes=256, num_groups=25),
    "ant": lambda rows: fit.ant(rows, num_nonzeros=40),
    "tt": lambda rows: fit.tt(rows, row_shape=(len(rows), 1), col_shape=(1, rows.shape[1]), rank=40),
}
SEGMENTER_FITS: Mapping[str, Callable[[fit.Rows], fit.Packed]] = {
    "dpq": lambda rows: fit.dpq(rows, num_codes=64, num_groups=8, padding_idx=0),
    "ant": lambda rows: fit.ant(rows, num_nonzeros=8, padding_idx=0),
    "tt": lambda rows: fit.tt(rows, (len(rows), 1), (1, rows.shape[1]), rank=8, padding_idx=0),
}


def layer(packed: fit.Packed) -> edge_embed.DPQEmbedding | edge_embed.ANTEmbedding | edge_embed.TTEmbedding:
    """A frozen embedding layer over a packed table."""
    if isinstance(packed, edge_embed.PackedDPQ):
        return edge_embed.DPQEmbedding.from_packed(packed)
    if isinstance(packed, edge_embed.PackedANT):
        return edge_embed.ANTEmbedding.from_packed(packed)
    return edge_embed.TTEmbedding.from_packed(packed)


def row_error(tables: Sequence[tuple[fit.Rows, fit.Packed]]) -> float:
    """Root of the squared error over that of the rows themselves, over all tables."""
    errors = [np.sum(np.square(packed.rows(np.arange(len(rows))) - rows)) for rows, packed in tables]
    return float(np.sqrt(sum(errors) / sum(np.sum(np.square(rows)) for rows, _ in tables)))


def compare_language_models(options: Options) -> list[Result]:
    """The language model: both tables, that of the input and that of the output layer."""
    with unpacked(options.data, "ptb-rnnlm") as folder, unpacked(options.data, "agnews20k") as news:
        model = language_model.load(folder / "ptb_rnnlm_100.npz")
        words = (folder / "ptb_vocab_by_id.txt").read_text(encoding="utf-8").split()
        limit = _QUICK_WORDS if options.quick else _WORDS
        text = language_model.business_news(news / "test.csv", words, limit)
    comparison = Comparison(options.output, text[None, :20], options.quick, prefix="words ")
    comparison.add("dense", model, {"row error": 0.0, "perplexity": language_model.perplexity(model, text)})
    dense = [model.state_dict()[name].numpy() for name in ("table.weight", "output.weight")]
    for method, fitted in LANGUAGE_FITS.items():
        packed = [fitted(rows) for rows in dense]
        small = copy.deepcopy(model)
        small.table = layer(packed[0])
        small.output = edge_embed.TiedOutput(layer(packed[1]), bias=model.state_dict()["output.bias"])
        scores = {
            "row error": row_error(list(zip(dense, packed, strict=True))),
            "perplexity": language_model.perplexity(small, text),
        }
        comparison.add(method, small, scores)
    return comparison.results


def compare_segmenters(options: Options) -> list[Result]:
    """The segmenter: its tables of characters and of syllables."""
    with unpacked(options.data, "pth-attacut") as folder:
        model = segmenter.load(folder)
        texts = segmenter.random_syllables(folder, rows=8 if options.quick else 200, length=100)
    decisions = _decisions(model, texts)
    comparison = Comparison(options.output, tuple(part[:2, :30] for part in texts), options.quick, prefix="thai ")
    comparison.add("dense", model, {"row error": 0.0, "same decisions": 1.0})
    dense = [model.state_dict()[f"{name}_embeddings.weight"].numpy() for name in ("ch", "sy")]
    for method, fitted in SEGMENTER_FITS.items():
        packed = [fitted(rows) for rows in dense]
        small = copy.deepcopy(model)
        small.ch_embeddings, small.sy_embeddings = map(layer, packed)
        same = (_decisions(small, texts) == decisions).float().mean()
        scores = {"row error": row_error(list(zip(dense, packed, strict=True))), "same decisions": float(same)}
        comparison.add(method, small, scores)
    return comparison.results


@torch.no_grad()
def _decisions(model: nn.Module, texts: tuple[Tensor, Tensor]) -> Tensor:
    """Where words begin, bool [rows, characters]."""
    begins: Tensor = model(*texts) > 0
    return begins


def run(options: Options) -> list[Result]:
    """Replace the tables of a language model and of a word segmenter that others trained; nothing is trained here."""
    return [*compare_language_models(options), *compare_segmenters(options)]
