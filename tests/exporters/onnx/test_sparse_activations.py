"""Sparse activations beside a compressed table: the exported file computes the probabilities of the model."""

import onnx
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.exporters.onnx.entmax import function
from edge_embed.exporters.onnx.nodes.entmax import ACTIVATIONS as OPERATORS
from edge_embed.validation.exported_file import nodes_inside

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


@pytest.mark.parametrize("op_type", OPERATORS)
def test_bodies_have_at_most_40_nodes(op_type):
    body = onnx.helper.make_graph(function(op_type).node, "body", [], [])
    assert len(list(nodes_inside(body))) <= 40


class Scores(nn.Module):
    """A model without a table, with activations along two dimensions, and a learned alpha for each attention head."""

    def __init__(self) -> None:
        super().__init__()
        self.sparsemax, self.learned = edge_embed.Sparsemax(dim=1), edge_embed.Entmax(1.3, num_heads=3)

    def forward(self, scores: torch.Tensor) -> list[torch.Tensor]:
        return [self.sparsemax(scores), self.learned(scores), edge_embed.entmax15(scores.half())]


def test_model_without_table_is_exported_with_one_node_for_each_activation(tmp_path):
    model, scores = Scores().eval(), torch.randn(2, 3, 5, 4)
    edge_embed.save(model, tmp_path / "model.pt", scores)
    edge_embed.export(tmp_path / "model.pt", "onnx", tmp_path / "model.onnx")
    graph = onnx.load(tmp_path / "model.onnx").graph
    nodes = {node.op_type: node for node in graph.node if node.domain == "edge_embed"}
    assert sorted(nodes) == ["Entmax", "Entmax15", "Sparsemax"]
    initializers = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    assert initializers[nodes["Entmax"].input[1]] == (1, 3, 1, 1)
    assert [node.op_type for node in graph.node].count("Cast") == 1  # float16 is given to the node as it is
    session, longer = edge_embed.create_session(tmp_path / "model.onnx"), torch.randn(4, 3, 9, 11)
    for got, wanted in zip(session.run(None, {"scores": longer.numpy()}), model(longer), strict=True):
        atol = 1e-6 if wanted.dtype == torch.float32 else 5e-4
        torch.testing.assert_close(torch.from_numpy(got), wanted.detach(), rtol=0, atol=atol)


def test_saved_activations_have_gradients_of_functions(tmp_path):
    scores, model = torch.randn(2, 3, 5, 4), Scores().eval()
    edge_embed.save(model, tmp_path / "model.pt", scores)
    program = edge_embed.workflow.load(tmp_path / "model.pt").module
    weights = torch.randn(2, 3, 5, 4)
    found = []
    for call in (program, model):
        given = scores.clone().requires_grad_()
        sum((result * weights).sum() for result in call(given)).backward()
        found.append(given.grad)
    torch.testing.assert_close(*found, rtol=0, atol=1e-3)  # probabilities of float16 are stored rounded
