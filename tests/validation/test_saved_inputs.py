"""Inputs of a validation, saved and run again."""

import io
import zipfile

import numpy as np
import onnx
import pytest
import torch
from rich.console import Console
from torch import nn

from edge_embed import workflow
from edge_embed.errors import BadInputError
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.saved_inputs import load_inputs


def test_saved_inputs_give_same_comparison_with_another_seed(inline, tmp_path):
    saved = tmp_path / "inputs.npz"
    first = inline.validate(seed=3, more_cases=2, save_inputs=saved)
    again = inline.validate(seed=4, inputs=saved)
    assert len(first.model.cases) == 6  # the example, uniform, Zipf, ones, two more
    assert again.model == first.model
    assert again.model != inline.validate(seed=4).model
    with np.load(saved) as archive:
        assert archive["seed"] == 3
        assert archive["0/ids"].dtype == np.int64


def test_cases_beyond_default_follow_and_change_none(inline):
    usual, more = inline.validate(seed=3).model.cases, inline.validate(seed=3, more_cases=3).model.cases
    assert more[: len(usual)] == usual
    assert [name.split(",")[0] for name in more[len(usual) :]] == [f"random case {number}" for number in range(3)]


def test_worst_inputs_are_saved_and_fail_again(inline, tmp_path):
    inline.flip(_recurrent(inline), byte=3, bit=6)
    worst = tmp_path / "worst.npz"
    report = inline.validate(save_worst=worst)
    assert not report.passed
    names = {output.worst_case for path in report.model.paths for output in path.outputs}
    again = inline.validate(inputs=worst)
    assert not again.passed
    assert set(again.model.cases) == names - {""}
    assert [path.outputs[0].max_abs_error for path in again.model.paths] == [
        path.outputs[0].max_abs_error for path in report.model.paths
    ]


def _recurrent(exported):
    """Return the name of the recurrent weights of the LSTM, [1, 24, 6]."""
    (name,) = (t.name for t in onnx.load(exported.path).graph.initializer if list(t.dims) == [1, 24, 6])
    return name


def test_existing_file_is_refused_before_any_work_and_kept(inline, tmp_path, monkeypatch):
    monkeypatch.setattr("edge_embed.validation.table_paths.table_calls", lambda *_: pytest.fail("work was done"))
    for option in ("save_inputs", "save_worst"):
        (tmp_path / "x.npz").write_bytes(b"mine")
        with pytest.raises(BadInputError, match=r"x\.npz: exists; choose another path, or replace it with --force"):
            inline.validate(**{option: tmp_path / "x.npz"})
        assert (tmp_path / "x.npz").read_bytes() == b"mine"


GOOD = {
    "names": np.array(["mine"]),
    "0/ids": np.array([[3, 1]]),
    "0/features": np.ones((1, 2, 48), np.float32),
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"0/ids": np.array([[3, 1]], np.uint64)}, "mine: input ids: got uint64, expected int64"),
        ({"0/ids": np.array([[3, 600]])}, "the model fails on these inputs"),
        ({"0/ids": np.array([3, 1])}, "the model fails on these inputs"),
        ({"0/ids": None}, "has no array 0/ids: expected an array for each input and case"),
        ({"names": np.array([], "U4")}, "has no array of inputs"),
        ({"names": np.array(["one", "two"])}, "has no array 1/ids, 1/features: expected"),
        ({"0/other": np.array([1])}, "array 0/other is not an input of a case"),
        (
            {"1/ids": np.array([[1]]), "1/features": np.ones((1, 1, 48), np.float32)},
            "array 1/features, 1/ids is not an input",
        ),
        ({"0/ids": np.array([[print]], object)}, "is damaged"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inline, tmp_path, change, message):
    arrays = {name: value for name, value in (GOOD | change).items() if value is not None}
    np.savez(tmp_path / "x.npz", **arrays)
    with pytest.raises(BadInputError, match=message):
        inline.validate(inputs=tmp_path / "x.npz")


def test_inputs_from_own_file_are_compared(inline, tmp_path):
    np.savez(tmp_path / "x.npz", **GOOD)
    report = inline.validate(inputs=tmp_path / "x.npz")
    assert report.passed
    assert report.model.cases == ("mine",)
    np.savez(tmp_path / "x.npz", **{name: value for name, value in GOOD.items() if name != "names"})
    assert inline.validate(inputs=tmp_path / "x.npz").model.cases == ("case 0",)


def test_names_of_cases_are_shown_literally(inline, tmp_path):
    np.savez(tmp_path / "x.npz", **(GOOD | {"names": np.array(["[/bold] \x1b[31m"])}))
    report = inline.validate(inputs=tmp_path / "x.npz", iterations=2)
    assert report.model.cases == ("[/bold] ?[31m",)
    console = Console(width=200, file=io.StringIO())
    console.print(report.render())
    assert "[/bold] ?[31m" in console.file.getvalue()


@pytest.mark.parametrize("option", ["save_inputs", "save_worst"])
def test_input_files_are_never_replaced_even_with_force(inline, tmp_path, option):
    np.savez(tmp_path / "x.npz", **GOOD)
    for path in (inline.path, tmp_path / "x.npz"):
        before = path.read_bytes()
        options = ValidationOptions(iterations=0, inputs=tmp_path / "x.npz", force=True, **{option: path})
        with pytest.raises(BadInputError, match="is read by this command: choose another path"):
            workflow.validate(inline.program, inline.path, options=options)
        assert path.read_bytes() == before


def test_damaged_files_are_refused_or_give_same_inputs(inline, tmp_path):
    path = tmp_path / "x.npz"
    np.savez(path, **GOOD)
    whole = path.read_bytes()
    (sound,) = load_inputs(path, inline.program)
    refused, accepted = 0, 0
    for at in range(0, len(whole), 97):
        for damaged in (whole[:at], whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]):
            path.write_bytes(damaged)
            try:
                (found,) = load_inputs(path, inline.program)
            except BadInputError:
                refused += 1
            else:  # a byte that no reader uses
                accepted += 1
                assert found.name == sound.name
                assert all(map(torch.equal, found.inputs, sound.inputs))
    assert refused > accepted
    path.unlink()
    with pytest.raises(BadInputError, match=r"no such file: expected an archive of arrays \(\.npz\)"):
        load_inputs(path, inline.program)
    with zipfile.ZipFile(path, "w"):
        pass
    with pytest.raises(BadInputError, match="has no array of inputs"):
        load_inputs(path, inline.program)


class _WithAnEmptyOutput(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = DPQEmbedding(20, 4, num_codes=4, num_groups=2)

    def forward(self, ids):
        rows = self.words(ids)
        return rows, rows[..., :0]


def test_inputs_with_empty_outputs_only_are_refused(tmp_path):
    program = workflow.load(_WithAnEmptyOutput().eval(), torch.tensor([[1, 2]]))
    np.savez(tmp_path / "x.npz", **{"0/ids": np.empty((1, 0), np.int64)})
    with pytest.raises(BadInputError, match=r"x\.npz: all outputs are empty on these inputs"):
        load_inputs(tmp_path / "x.npz", program)
