"""Sparse activations beside a compressed table: the exported file computes the probabilities of the model."""

import pytest
import torch
from torch import nn

import edge_embed

ACTIVATIONS = {
    "sparsemax": edge_embed.Sparsemax,
    "entmax15": edge_embed.Entmax15,
    "topk": lambda: edge_embed.TopKSparsemax(2),
    "learned": lambda: edge_embed.Entmax(1.3, num_heads=3),
}


class Attention(nn.Module):
    """Three attention heads over rows of a table, as causal as its mask, with every activation side by side."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(90, 24, num_codes=16, num_groups=6)
        self.activations = nn.ModuleDict({name: ACTIVATIONS[name]() for name in names})

    def forward(self, ids: torch.Tensor) -> list[torch.Tensor]:
        heads = self.words(ids).unflatten(-1, (3, 8)).transpose(1, 2)  # [B, H, T, w]
        scores = 300 * heads @ heads.transpose(-1, -2)
        mask = torch.ones(ids.shape[1], ids.shape[1], dtype=torch.bool).tril()
        return [activation(scores, mask) for activation in self.activations.values()]


@pytest.mark.parametrize(
    "names", [["sparsemax", "entmax15", "topk"], pytest.param(["learned"], marks=pytest.mark.slow)]
)
def test_exported_activations_match_those_of_model(names, tmp_path):
    torch.manual_seed(0)
    model, ids = Attention(names).eval(), torch.randint(0, 90, (2, 5))
    length = torch.export.Dim("length", min=3, max=64)
    edge_embed.export(model, "onnx", tmp_path / "model.onnx", ids, {"ids": {1: length}})
    session = edge_embed.create_session(tmp_path / "model.onnx")
    for tokens in (ids, torch.randint(0, 90, (2, 9))):
        with torch.no_grad():
            expected = model(tokens)
        for got, wanted in zip(session.run(None, {"ids": tokens.numpy()}), expected, strict=True):
            torch.testing.assert_close(torch.from_numpy(got), wanted, rtol=0, atol=1e-6)
            assert (wanted == 0).float().mean() > 0.42  # the causal mask excludes 0.4 of 5 words


@pytest.mark.parametrize("name", ["sparsemax", "entmax15", pytest.param("topk", marks=pytest.mark.slow)])
def test_rows_without_a_probability_are_nan_in_file(name, tmp_path):
    rows = torch.tensor([[torch.inf, 0, 1, 2], [torch.nan, 0, 1, 2], [-torch.inf] * 4, [-torch.inf, 0, 1, 2]])
    export = torch.onnx.export(ACTIVATIONS[name](), (rows,), dynamo=True, verbose=False)
    export.save(tmp_path / "model.onnx")
    (found,) = edge_embed.create_session(tmp_path / "model.onnx").run(None, {"scores": rows.numpy()})
    torch.testing.assert_close(torch.from_numpy(found), ACTIVATIONS[name]()(rows), equal_nan=True)
