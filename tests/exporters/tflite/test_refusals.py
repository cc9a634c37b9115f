"""What is not exported to TFLite is refused with what is, and nothing is written."""

import sys

import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError, EdgeEmbedError


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = edge_embed.DPQEmbedding(20, 12, 16, 4)
        self.tags = nn.Linear(12, 3)

    def forward(self, ids):
        return self.tags(self.words(ids))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = edge_embed.DPQEmbedding(20, 12, 16, 4)
        self.output = edge_embed.TiedOutput(self.words)

    def forward(self, ids):
        return self.output(self.words(ids))


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model.pt"
    return edge_embed.save(edge_embed.DPQEmbedding(20, 12, 16, 4), path, torch.tensor([[1, 2]]))


@pytest.mark.parametrize(
    ("model", "what"), [(Tagger(), "the operator aten.linear"), (Tied(), "logits of a table")], ids=["linear", "head"]
)
def test_the_rest_of_a_model(export, tmp_path, model, what):
    with pytest.raises(BadInputError, match=rf"{what}.*only look-ups and bags.*--target onnx"):
        export(model)
    assert not list(tmp_path.rglob("*.tflite"))


def test_a_model_without_a_compressed_table(export):
    with pytest.raises(BadInputError, match="no compressed table"):
        export(nn.Embedding(20, 12))


@pytest.mark.parametrize(
    ("target", "option"),
    [
        ("tflite", {"external_data": "always"}),
        ("tflite", {"memory_megabytes": 3}),
        ("tflite", {"tokenizer": "tokenizer.json"}),
        ("onnx", {"tflite_table": "byte"}),
    ],
)
def test_an_option_of_the_other_target(saved, tmp_path, target, option):
    (name,) = option
    with pytest.raises(BadInputError, match=f"{name}: got one for target {target}, expected it with"):
        edge_embed.export(saved, target, tmp_path / "model", **option)
    assert not list(tmp_path.iterdir())


def test_the_report_says_how_tables_lie_in_the_file(saved, tmp_path):
    report = edge_embed.export(saved, "tflite", tmp_path / "model.tflite", tflite_table="pairs").to_json()
    (table,) = report["tables"]
    assert (table["layout"], table["added_bytes"]) == ("pairs", 256 * 12 * 4 - 16 * 12 * 4)
    assert report["frozen"] == {"ids": [], "output": ["12"]}


def test_without_the_package_it_says_how_to_get_it(saved, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ai_edge_litert.schema_py_generated", None)
    with pytest.raises(EdgeEmbedError, match=r'pip install "edge-embed\[tflite\]"'):
        edge_embed.export(saved, "tflite", tmp_path / "model.tflite")
    assert not list(tmp_path.iterdir())
