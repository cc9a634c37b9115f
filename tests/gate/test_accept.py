"""The command that accepts a growth can be typed as it is shown."""

import shlex
from pathlib import Path

import click
import pytest

from edge_embed.cli.check import check
from edge_embed.gate.accept_command import accept_command
from edge_embed.gate.budget import Budget

BASELINE = Path("b.json")


def parsed(command: str) -> click.Context:
    """What `edge-embed check` takes it for."""
    program, name, *arguments = shlex.split(command)
    assert (program, name) == ("edge-embed", "check")
    return check.make_context(name, arguments)


@pytest.mark.parametrize(
    ("model", "exported"),
    [("model.pt", "model.onnx"), ("-model.pt", "--out.onnx"), ("a b/ü.pt", "it's $x.onnx"), ("dir/-m.pt", "/-/x.onnx")],
)
def test_the_command_names_the_files_whatever_they_are_called(model: str, exported: str) -> None:
    found = parsed(accept_command(model, Path(exported), Budget(), BASELINE, [])).params
    assert (found["model"], found["exported"]) == (Path(model), Path(exported))
    assert (found["baseline"], found["accept"]) == (BASELINE, True)


def test_a_budget_whose_name_begins_with_a_dash_stays_one() -> None:
    budget = Budget(Path("-b.toml"), model=Path("-m.pt"), exported=Path("-m.onnx"), baseline=Path("-b.json"))
    command = accept_command("-m.pt", Path("-m.onnx"), budget, Path("-b.json"), [])
    found = parsed(command).params
    assert (found["budget"], found["model"], found["baseline"]) == (Path("-b.toml"), None, None)


def test_nothing_is_accepted_without_a_baseline_or_by_a_command_without_a_file() -> None:
    assert accept_command("m.pt", Path("m.onnx"), Budget(), None, []) == ""
    assert accept_command(object(), Path("m.onnx"), Budget(), BASELINE, []) == "edge_embed.check(..., accept=True)"
