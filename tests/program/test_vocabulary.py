"""The vocabulary of a saved model: its order, and its size beside the tables."""

import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.program.load import load_program

IDS = torch.tensor([[1, 2]])


def saved(folder, model, vocabulary):
    return load_program(edge_embed.save(model, folder / "m.pt", IDS, vocabulary=vocabulary, force=True)).vocabulary


def warnings_of(folder, model, vocabulary):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        edge_embed.save(model, folder / "m.pt", IDS, vocabulary=vocabulary)
    return [(str(warning.message), Path(warning.filename).name) for warning in caught]


def test_vocabulary_as_mapping_gives_token_of_every_id(tmp_path):
    assert saved(tmp_path, nn.Embedding(3, 2), {"b": 1, "a": 0, "c": 2}) == ["a", "b", "c"]


@pytest.mark.parametrize("vocabulary", [{"a": 0, "b": 2}, {"a": 1, "b": 2}, {"a": 0, "b": 0}, {"a": "x"}])
def test_vocabulary_mapping_with_missing_or_double_ids_is_refused(tmp_path, vocabulary):
    with pytest.raises(BadInputError, match=r"a mapping whose ids are not 0 to .*: give a list"):
        saved(tmp_path, nn.Embedding(3, 2), vocabulary)


@pytest.mark.parametrize("vocabulary", ["abc", 3, {"a", "b"}, frozenset("ab")])
def test_vocabulary_that_is_no_list_is_refused(tmp_path, vocabulary):
    with pytest.raises(BadInputError, match=f"got a {type(vocabulary).__name__}, expected a list of tokens"):
        saved(tmp_path, nn.Embedding(3, 2), vocabulary)


@pytest.mark.parametrize(
    ("tokens", "said"),
    [
        (2, "got 2 tokens, expected 3, the rows of the table words: rows from 2 on have no token"),
        (4, "got 4 tokens, expected 3, the rows of the table words: tokens from 't3' on have no row"),
    ],
)
@pytest.mark.parametrize("table", [nn.Embedding(3, 2), edge_embed.TTEmbedding(3, 2, rank=1)], ids=["dense", "tt"])
def test_vocabulary_of_another_size_than_tables_warns(tmp_path, tokens, said, table):
    model = nn.Sequential()
    model.add_module("words", table)
    vocabulary = [f"t{at}" for at in range(tokens)]
    assert warnings_of(tmp_path, model, vocabulary) == [(f"vocabulary: {said}", Path(__file__).name)]
    assert load_program(tmp_path / "m.pt").vocabulary == vocabulary


@pytest.mark.parametrize("rows", [(3, 7), (7, 3)])
def test_vocabulary_that_fits_one_table_gives_no_warning(tmp_path, rows):
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.users, self.items = (nn.Embedding(count, 2) for count in rows)

        def forward(self, ids):
            return self.users(ids) + self.items(ids)

    assert not warnings_of(tmp_path, Two(), ["a", "b", "c"])
