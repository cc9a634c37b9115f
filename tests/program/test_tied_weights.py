"""Checkpoints with two weights where the model has one under two names."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.program.state_dict import load_into


class Language(nn.Module):
    def __init__(self, way: str = "parameter") -> None:
        super().__init__()
        self.words, self.head = nn.Embedding(30, 8), nn.Linear(8, 30, bias=False)
        if way == "parameter":
            self.head.weight = self.words.weight
        elif way == "memory":
            self.head.weight = nn.Parameter(self.words.weight.detach())
        elif way == "part":
            self.head = nn.Linear(8, 20, bias=False)
            self.head.weight = nn.Parameter(self.words.weight.detach()[5:25])


def stored(folder: Path, weights: dict[str, torch.Tensor], name: str = "c.pt") -> Path:
    path = folder / name
    save_file(weights, path) if name.endswith(".safetensors") else torch.save(weights, path)
    return path


@pytest.mark.parametrize("name", ["c.pt", "c.safetensors"])
@pytest.mark.parametrize("way", ["parameter", "memory", "part"])
def test_different_weights_of_tied_model_are_refused(tmp_path, way, name):
    weights = {key: tensor.clone() for key, tensor in Language(way).state_dict().items()}
    load_into(lambda: Language(way), stored(tmp_path, weights, name))  # equal ones are accepted
    weights["head.weight"][7, 3] += 0.5
    path = stored(tmp_path, weights, name)
    with pytest.raises(
        BadInputError,
        match=r"contains different weights words.weight and head.weight, which the "
        "model of --model ties",
    ):
        load_into(lambda: Language(way), path)


def test_error_gives_number_and_size_of_differences(tmp_path):
    weights = {key: tensor.clone() for key, tensor in Language().state_dict().items()}
    weights["head.weight"][7, 3] += 0.5
    with pytest.raises(BadInputError, match=r"\(1 of 240 numbers differ, by up to 0.5\)"):
        load_into(Language, stored(tmp_path, weights))


def test_different_tables_of_tied_output_are_refused(tmp_path):
    class Compressed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = edge_embed.TTEmbedding(30, 8, rank=2)
            self.head = edge_embed.TiedOutput(self.words)

    weights = {key: tensor.clone() for key, tensor in Compressed().state_dict().items()}
    weights["head.embedding.cores.0"] += 1
    with pytest.raises(BadInputError, match=r"weights words.cores.0 and head.embedding.cores.0"):
        load_into(Compressed, stored(tmp_path, weights))


def test_weights_of_nan_are_equal_to_themselves(tmp_path):
    weights = {key: tensor.clone() for key, tensor in Language().state_dict().items()}
    for tensor in weights.values():
        tensor[0, 0] = float("nan")
    assert load_into(Language, stored(tmp_path, weights)).words.weight.isnan().sum() == 1


def test_untied_weights_are_loaded_separately(tmp_path):
    model = Language("none")
    loaded = load_into(lambda: Language("none"), stored(tmp_path, model.state_dict()))
    assert torch.equal(loaded.head.weight, model.head.weight)
