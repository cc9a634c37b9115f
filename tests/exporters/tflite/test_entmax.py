"""Sparse activations by builtin operators: the functions that the converter translates, and a file in LiteRT."""

import numpy as np
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.exporters.tflite.entmax import REPLACEMENTS, alpha_entmax, entmax15, sparsemax, topk_sparsemax
from edge_embed.ops import entmax
from edge_embed.targets.tflite.litert import LiteRtModel

INF, NAN = torch.inf, torch.nan
PAIRS = {
    "sparsemax": (sparsemax, entmax.sparsemax),
    "entmax15": (entmax15, entmax.entmax15),
    "entmax": (lambda x: alpha_entmax(x, torch.tensor([1.3])), lambda x: entmax.entmax(x, 1.3)),
    "topk": (lambda x: topk_sparsemax(x, 2), lambda x: entmax.topk_sparsemax(x, 2)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_replacement_is_within_a_millionth_of_float64(name):
    replacement, exact = PAIRS[name]
    torch.manual_seed(0)
    for scale in (0, 0.01, 1, 30):
        for n in (3, 17, 600):
            scores = scale * torch.randn(20, n)
            wanted = exact(scores.double())
            torch.testing.assert_close(replacement(scores).double(), wanted, rtol=0, atol=1e-6)
    equal = torch.randint(0, 3, (50, 40)) / 16
    torch.testing.assert_close(replacement(equal), exact(equal), rtol=0, atol=1e-6)
    rows = torch.tensor([[INF, 0, 1], [0, 1, NAN], [-INF] * 3, [-INF, 0, 1], [1, -INF, -INF]])
    torch.testing.assert_close(replacement(rows), exact(rows), rtol=0, atol=1e-6, equal_nan=True)


def test_opaque_operators_all_have_a_replacement():
    assert set(REPLACEMENTS) == set(entmax.OPERATORS.values())


@pytest.mark.slow
def test_file_with_activations_alone_runs_in_litert(tmp_path):
    model = nn.Sequential(nn.Linear(6, 40), edge_embed.Entmax15(), edge_embed.TopKSparsemax(2))
    edge_embed.save(model, tmp_path / "model.pt", torch.randn(3, 6))
    edge_embed.export(tmp_path / "model.pt", "tflite", tmp_path / "model.tflite")
    assert edge_embed.validate(tmp_path / "model.pt", tmp_path / "model.tflite").exit_code == 0


@pytest.mark.slow
def test_rows_without_probabilities_are_nan_in_litert(tmp_path):
    """XNNPACK and the reference kernels lose NaN in maxima, wherever it is."""

    class Every(nn.Module):
        def forward(self, scores: torch.Tensor) -> list[torch.Tensor]:
            mixed = entmax.entmax(scores, 1.3), entmax.topk_sparsemax(scores, 2)
            return [entmax.sparsemax(scores), entmax.entmax15(scores), *mixed]

    bad = [[NAN, 0, 1, -INF], [0, 1, 2, NAN], [0, NAN, 1, 2], [INF, 0, 1, 2], [0, 1, INF, INF], [-INF] * 4]
    rows = torch.tensor([*bad, [0, 1, -INF, 3]])
    edge_embed.export(Every(), "tflite", tmp_path / "model.tflite", rows)
    for found in LiteRtModel(tmp_path / "model.tflite").call({"scores": rows.numpy()}):
        assert np.isnan(found).all(1).tolist() == [True] * len(bad) + [False]
        assert found[-1].sum() == pytest.approx(1, abs=1e-5)
