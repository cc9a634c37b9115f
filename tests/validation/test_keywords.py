"""Options of `edge_embed.validate` as keywords."""

from pathlib import Path

import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("keywords")
    model = nn.Sequential(edge_embed.DPQEmbedding(50, 8, 4, 4), nn.Linear(8, 2))
    edge_embed.save(model, folder / "m.pt", example_inputs=torch.tensor([[1, 2, 3]]))
    edge_embed.export(folder / "m.pt", "onnx", folder / "m.onnx")
    return folder / "m.pt", folder / "m.onnx"


def test_keywords_take_the_place_of_options(files, tmp_path):
    options = edge_embed.ValidationOptions(iterations=0, seed=7)
    report = edge_embed.validate(*files, options=options, seed=3, save_inputs=str(tmp_path / "inputs.npz"))
    assert (report.seed, report.passed) == (3, True)
    assert all(result.ratio is None for result in report.latency.results)
    assert (tmp_path / "inputs.npz").is_file()


@pytest.mark.parametrize("tolerance", [0.0, {"output": 0}])
def test_tolerances_are_numbers_or_numbers_by_output(files, tolerance):
    given = edge_embed.ValidationOptions().given(atol=tolerance, targets="portable")
    assert given.atol.by_output.get("output", given.atol.default) == 0
    assert given.targets == ("portable",)
    with pytest.raises(BadInputError, match="tolerance for 'nothing'"):
        edge_embed.validate(*files, atol={"nothing": 1}, iterations=0)
    with pytest.raises(BadInputError, match="tolerance: got '-1'"):
        edge_embed.validate(*files, rtol=-1, iterations=0)


def test_a_mistyped_option_says_which_one_was_meant(files):
    with pytest.raises(TypeError, match=r"argument 'iteration': did you mean 'iterations'\?"):
        edge_embed.validate(*files, iteration=3)
    with pytest.raises(BadInputError, match="iterations: got -1, expected an integer of at least 0"):
        edge_embed.validate(*files, iterations=-1)
