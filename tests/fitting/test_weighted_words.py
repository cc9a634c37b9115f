"""The gain of counts for trains and rings of a real table: the figures of the guide."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.fitting import tr, tt
from edge_embed.layers.tt import TTEmbedding

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "tensor-train.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def words(data: Path, tables: dict[str, NDArray[np.float32]]) -> tuple[Tensor, Tensor]:
    """Return the input table and the count of each of its words in WikiText-2."""
    names = (data / "ptb-rnnlm" / "ptb_vocab_by_id.txt").read_text(encoding="utf-8").splitlines()
    ids, counts = {name: at for at, name in enumerate(names)}, torch.zeros(len(names))
    for part in ("valid", "test"):
        text = (data / "wikitext2-valtest" / f"wiki.{part}.txt").read_text(encoding="utf-8")
        found = torch.tensor([ids.get(word, ids["<unk>"]) for word in text.lower().split()])
        counts += found.bincount(minlength=len(names))
    return torch.from_numpy(tables["input"]), counts


def error(layer: TTEmbedding, rows: Tensor, weights: Tensor) -> float:
    """Return the relative error with weighted rows."""
    missed = (layer(torch.arange(len(rows))) - rows).square().sum(1)
    return float((weights @ missed / (weights @ rows.square().sum(1))).sqrt())


@pytest.mark.parametrize(
    ("fit", "rank", "ratio", "weighted", "alike"),
    [(tt.fit, 24, 16, (0.41, 0.81), (1.06, 0.92)), (tr.fit, 12, 26, (0.44, 0.83), (1.10, 0.96))],
)
@torch.no_grad()
def test_figures_of_guide_match_measurement(
    words: tuple[Tensor, Tensor],
    fit: Callable[..., TTEmbedding],
    rank: int,
    ratio: int,
    weighted: tuple[float, float],
    alike: tuple[float, float],
) -> None:
    rows, counts = words
    layers = [fit(rows, rank, counts=counts).eval(), fit(rows, rank).eval()]
    assert rows.nbytes / layers[0].to_packed().nbytes == pytest.approx(ratio, abs=0.5)
    for weights, figures in ((counts, weighted), (torch.ones(len(rows)), alike)):
        assert [error(layer, rows, weights) for layer in layers] == pytest.approx(figures, abs=0.005)
        assert all(f"{figure:.2f}" in GUIDE for figure in figures)
