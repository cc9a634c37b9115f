"""`inspect` of files of weights lists the matrices that may be tables, and the command that compresses them."""

import shlex
from pathlib import Path

import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.inspection.candidates import note_of


def weights():
    model = nn.Sequential(nn.Embedding(300, 8), nn.Linear(8, 32), nn.Linear(32, 8), nn.Linear(8, 300, bias=False))
    model[3].weight = model[0].weight
    return model


def state_dict():
    return weights().state_dict()


def checkpoint():
    model = weights()
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.arange(3)).sum().backward()
    optimizer.step()
    return {"epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict()}


@pytest.mark.parametrize("is_zip", [True, False])
@pytest.mark.parametrize(("content", "name"), [(state_dict(), "0"), (checkpoint(), "model.0")])
def test_inspect_of_weights_lists_possible_tables_once(tmp_path, content, name, is_zip):
    path = tmp_path / "weights.pt"
    torch.save(content, path, _use_new_zipfile_serialization=is_zip)
    report = edge_embed.inspect(path)
    assert [(table.name, table.num_embeddings, table.embedding_dim, table.stored_bytes) for table in report.dense] == [
        (name, 300, 8, 9600)
    ]
    assert f"possible tables by shape: {name}. " in report.notes[1]
    command = f"edge-embed compress {path} -o small.pt --ratio 8 --model package.module:function"
    assert f"they require 1,200 bytes after {command}" in report.notes[1]


@pytest.mark.parametrize("content", [nn.Linear(8, 8).state_dict(), {"table": torch.zeros(90, 8, dtype=torch.int64)}])
def test_inspect_of_weights_without_tall_matrices_lists_none(tmp_path, content):
    torch.save(content, tmp_path / "weights.pt")
    report = edge_embed.inspect(tmp_path / "weights.pt")
    assert report.dense == []
    assert len(report.notes) == 1


@pytest.mark.parametrize("name", ["a model.pt", "it's.pt"])
def test_note_of_path_with_special_characters_quotes_it_for_the_shell(name: str) -> None:
    words = shlex.split(note_of(Path(name), []).partition("after ")[2])
    assert words[:3] == ["edge-embed", "compress", name]
