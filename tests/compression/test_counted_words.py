"""What counts bring to trains and rings of a real table: the figures of the README."""

import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from edge_embed.compression import tr, tt
from edge_embed.layers.tt import TTEmbedding

DATA = os.environ.get("EDGE_EMBED_DATA")
README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")

pytestmark = pytest.mark.skipif(
    DATA is None, reason="EDGE_EMBED_DATA names no folder with the samples' data (samples/*/README.md)"
)


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tensor, Tensor]:
    """The input table of a language model, float32 [10000, 100], and how often WikiText-2 has each of its words."""
    folder = tmp_path_factory.mktemp("data")
    for name in ("ptb-rnnlm", "wikitext2-valtest"):
        with tarfile.open(Path(DATA or "") / f"{name}.tar.xz") as archive:
            archive.extractall(folder, filter="data")
    names = (folder / "ptb-rnnlm" / "ptb_vocab_by_id.txt").read_text(encoding="utf-8").splitlines()
    ids, counts = {name: at for at, name in enumerate(names)}, torch.zeros(len(names))
    for part in ("valid", "test"):
        text = (folder / "wikitext2-valtest" / f"wiki.{part}.txt").read_text(encoding="utf-8")
        found = torch.tensor([ids.get(word, ids["<unk>"]) for word in text.lower().split()])
        counts += found.bincount(minlength=len(names))
    with np.load(folder / "ptb-rnnlm" / "ptb_rnnlm_100.npz") as arrays:
        return torch.tensor(arrays["embed"], dtype=torch.float32), counts


def error(layer: TTEmbedding, rows: Tensor, weights: Tensor) -> float:
    """Relative error, rows weighted."""
    missed = (layer(torch.arange(len(rows))) - rows).square().sum(1)
    return float((weights @ missed / (weights @ rows.square().sum(1))).sqrt())


@pytest.mark.parametrize(
    ("fit", "rank", "ratio", "weighted", "alike"),
    [(tt.fit, 24, 16, (0.41, 0.81), (1.06, 0.92)), (tr.fit, 12, 26, (0.44, 0.83), (1.10, 0.96))],
)
@torch.no_grad()
def test_the_figures_of_the_readme(
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
        assert all(f"{figure:.2f}" in README for figure in figures)
