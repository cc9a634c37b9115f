"""Options of `edge_embed.validate` as keywords."""

import dataclasses
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


def test_keywords_set_validation_options(files, tmp_path):
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


def test_mistyped_option_names_the_intended_one(files):
    with pytest.raises(TypeError, match=r"argument 'iteration': did you mean 'iterations'\?"):
        edge_embed.validate(*files, iteration=3)
    with pytest.raises(BadInputError, match="iterations: got -1, expected an integer of at least 0"):
        edge_embed.validate(*files, iterations=-1)


@pytest.mark.parametrize(
    ("wrong", "meant"), [("load_inputs", "inputs"), ("cases", "more_cases"), ("target", "targets")]
)
def test_command_line_name_is_answered_with_keyword(files, wrong, meant):
    with pytest.raises(TypeError, match=rf"argument '{wrong}': did you mean '{meant}'\?"):
        edge_embed.validate(*files, **{wrong: 3})


def test_keywords_cover_all_options(files, monkeypatch):
    seen = []
    monkeypatch.setattr("edge_embed.workflow.validate_file", lambda *given: seen.append(given[3]))
    values = {"atol": 1e-3, "rtol": {"output": 1e-2}, "seed": 5, "iterations": 2, "warmup": 1, "more_cases": 4}
    values |= {"inputs": "i.npz", "save_inputs": "s.npz", "save_worst": "w.npz", "force": True, "tokenizer": "t.json"}
    values |= {"targets": ["portable"], "time_limit": 7.5, "changed_after_export": True, "texts": "t.txt"}
    assert set(values) == {field.name for field in dataclasses.fields(edge_embed.ValidationOptions)}
    edge_embed.validate(*files, **values)
    edge_embed.validate(*files, options=edge_embed.ValidationOptions(**values))
    assert seen[0] == seen[1]
    assert seen[0].atol.default == 1e-3
    assert seen[0].rtol.by_output == {"output": 1e-2}
    for name, value in values.items():
        if name not in ("atol", "rtol"):
            assert getattr(seen[0], name) in (value, Path(str(value)), ("portable",))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"time_limit": "5"}, "time_limit: got '5', expected a number of seconds"),
        ({"inputs": 3}, "inputs: got 3, expected the path of a file"),
        ({"targets": 3}, "targets: got 3, expected names"),
        ({"atol": "high"}, "tolerance: got 'high'"),
        ({"options": {"seed": 1}}, "options: got a dict, expected edge_embed.ValidationOptions"),
    ],
)
def test_impossible_options_are_refused_by_name(files, options, message):
    with pytest.raises(BadInputError, match=message):
        edge_embed.validate(*files, **options)
    if "options" not in options:
        with pytest.raises(BadInputError, match=message):
            edge_embed.ValidationOptions(**options)


@pytest.mark.parametrize("value", [None, 3, b"m.onnx"])
def test_arguments_that_are_no_paths_are_refused_by_name(files, value, tmp_path):
    expected = "expected the path of a file"
    with pytest.raises(BadInputError, match=f"exported: got .*, {expected}"):
        edge_embed.validate(files[0], value)
    with pytest.raises(BadInputError, match=f"output: got .*, {expected}"):
        edge_embed.export(files[0], "onnx", value)
    with pytest.raises(BadInputError, match=f"path: got .*, {expected}"):
        edge_embed.inspect(value)
    if value is not None:
        with pytest.raises(BadInputError, match=f"budget: got .*, {expected}"):
            edge_embed.check(*files, budget=value)
