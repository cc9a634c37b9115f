"""`inspect` lists output layers of a saved model that `compress` leaves, with the option that compresses them."""

import pytest
import torch
from torch import nn

import edge_embed

HIDDEN = torch.zeros(2, 8)
IDS = torch.zeros(2, 3, dtype=torch.int64)


class Scores(nn.Module):
    """Scores of all items, from the table of an embedding that has no other use."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(60, 8)

    def forward(self, hidden):
        return torch.topk(hidden @ self.items.weight.T, 5)


class Cosines(Scores):
    def forward(self, hidden):
        return hidden @ self.items.weight.T / self.items.weight.norm(dim=1)


def words(num_classes=60):
    """Return a model of words with an inner layer that has more rows than columns."""
    inner = [nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8)]
    return nn.Sequential(nn.Embedding(60, 8), *inner, nn.Linear(8, num_classes))


@pytest.mark.parametrize(
    ("model", "example", "tables", "name"),
    [(Scores(), HIDDEN, ["items"], "items"), (words(), IDS, ["0", "4"], "4")],
)
def test_output_layer_without_lookups_is_listed_with_option_to_compress(tmp_path, model, example, tables, name):
    path = edge_embed.save(model, tmp_path / "model.pt", example)
    report = edge_embed.inspect(path)
    assert [(dense.name, dense.num_embeddings, dense.embedding_dim) for dense in report.dense] == [
        (table, 60, 8) for table in tables
    ]
    (note,) = (note for note in report.notes if "output layer" in note)
    assert note == (
        f"{name} is an output layer without lookups: compress leaves it unless it is named (--module {name})"
    )
    small = edge_embed.compress(path, method="rows", bits=4, modules=[name])
    assert [(table.name, table.reason) for table in small.report.tables if not table.reason] == [(name, "")]


def test_output_layer_that_cannot_be_compressed_is_listed_with_reason(tmp_path):
    report = edge_embed.inspect(edge_embed.save(Cosines(), tmp_path / "model.pt", HIDDEN))
    assert [dense.name for dense in report.dense] == ["items"]
    assert "items is an output layer" in report.notes[-1]
    assert "cannot be compressed: aten.linalg_vector_norm.default uses it too" in report.notes[-1]


def tied():
    model = words()
    model[4].weight = model[0].weight
    return model


@pytest.mark.parametrize("model", [tied(), words(num_classes=5)])
def test_output_layer_tied_or_small_is_not_listed(tmp_path, model):
    report = edge_embed.inspect(edge_embed.save(model, tmp_path / "model.pt", IDS))
    assert [dense.name for dense in report.dense] == ["0"]
    assert not any("output layer" in note for note in report.notes)
