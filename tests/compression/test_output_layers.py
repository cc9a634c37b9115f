"""`compress` lists output layers without lookups, with the option that compresses them."""

import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError, SizeError

IDS = torch.zeros(2, 3, dtype=torch.int64)
HIDDEN = torch.zeros(2, 8)
UNTIED = "an output layer of 2,880 bytes without lookups: give its name to compress it (--module {})"


class Untied(nn.Module):
    """Words, and scores by the transpose of another matrix."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.inner = nn.Embedding(90, 8), nn.Linear(8, 8)
        self.scores = nn.Parameter(torch.randn(90, 8))

    def forward(self, ids):
        return self.inner(self.words(ids)) @ self.scores.t()


def linear_output():
    return nn.Sequential(nn.Embedding(90, 8), nn.Linear(8, 8), nn.Linear(8, 90))


def reasons(compressed):
    return {table.name: table.reason for table in compressed.report.tables}


@pytest.mark.parametrize(
    ("model", "words", "output_layer"), [(linear_output(), "0", "2"), (Untied(), "words", "linear")]
)
def test_compress_of_saved_model_lists_untied_output_layer(tmp_path, model, words, output_layer):
    path = edge_embed.save(model, tmp_path / "model.pt", IDS)
    assert reasons(edge_embed.compress(path, "rows", bits=4)) == {words: "", output_layer: UNTIED.format(output_layer)}
    assert reasons(edge_embed.compress(path, "rows", bits=4, modules=[words, output_layer])) == {
        words: "",
        output_layer: "",
    }


def test_compress_of_module_lists_untied_output_layer():
    assert reasons(edge_embed.compress(linear_output(), "rows", bits=4)) == {"0": "", "2": UNTIED.format("2")}


def test_tied_output_layer_is_not_listed_beside_its_table():
    model = linear_output()
    model[2].weight = model[0].weight
    assert reasons(edge_embed.compress(model, "rows", bits=4)) == {"0": ""}


@pytest.mark.parametrize("bias", [False, True])
def test_compress_of_output_layer_alone_names_option(tmp_path, bias):
    path = edge_embed.save(nn.Sequential(nn.Tanh(), nn.Linear(8, 90, bias)), tmp_path / "model.pt", HIDDEN)
    with pytest.raises(BadInputError, match=r"no table to compress: 1: an output layer .*\(--module 1\)"):
        edge_embed.compress(path, "rows", bits=4)
    assert reasons(edge_embed.compress(path, "rows", bits=4, modules=["1"])) == {"1": ""}


def test_compress_of_module_without_lookups_names_linear_layers():
    with pytest.raises(BadInputError, match=r"compressed only by name; the largest are: '0', '1'"):
        edge_embed.compress(nn.Sequential(nn.Linear(8, 9), nn.Linear(9, 2)), "rows", bits=4)


def test_compress_of_compressed_model_names_its_output_layer(tmp_path):
    path = edge_embed.save(linear_output(), tmp_path / "model.pt", IDS)
    edge_embed.compress(path, "rows", bits=4, output=tmp_path / "small.pt")
    with pytest.raises(BadInputError, match=r"0 is already product-quantised: .*its output layer too: --module 2"):
        edge_embed.compress(tmp_path / "small.pt", "rows", bits=4)


def test_linear_layer_that_is_whole_model_is_named_linear(tmp_path):
    model = nn.Linear(8, 90)
    edge_embed.save(model, tmp_path / "m.pt", torch.rand(2, 8))
    for source in (model, tmp_path / "m.pt"):
        with pytest.raises(BadInputError, match="linear: an output layer of 2,880 bytes without lookups"):
            edge_embed.compress(source, "rows", bits=4)
        assert edge_embed.compress(source, "rows", bits=4, modules="linear").report.tables[0].name == "linear"


class OneWeight(nn.Module):
    """Rows of a table that is computed from a weight, and scores by the weight."""

    def __init__(self, compute):
        super().__init__()
        self.words, self.compute = nn.Embedding(90, 32), compute

    def forward(self, ids):
        return nn.functional.linear(nn.functional.embedding(ids, self.compute(self.words.weight)), self.words.weight)


@pytest.mark.parametrize("compute", [nn.functional.normalize, lambda w: w[1:]], ids=["normalize", "slice"])
def test_table_sharing_weight_with_output_layer_is_compressed_with_it(tmp_path, compute):
    torch.manual_seed(0)
    model = OneWeight(compute)
    path = edge_embed.save(model, tmp_path / "model.pt", IDS)
    rows, output_layer = "words.weight", "words.weight_2"
    with pytest.raises(BadInputError, match=rf"aten.linear.default uses .*\(--module {rows} --module {output_layer}\)"):
        edge_embed.compress(path, "rows", bits=8)
    with pytest.raises(
        SizeError, match=rf"{output_layer}: the compressed model requires .*share these weights: {rows}"
    ):
        edge_embed.compress(path, "rows", bits=8, modules=[output_layer])
    compressed = edge_embed.compress(path, "rows", bits=8, modules=[rows, output_layer])
    assert reasons(compressed) == {rows: "", output_layer: ""}
    assert compressed.report.compressed_bytes < 90 * 32 * 4
    ids = torch.tensor([[0, 7, 88]])
    assert (compressed.model.run(ids)[0] - model(ids)).norm() < 0.03 * model(ids).norm()
