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
    """Return the options that `edge-embed check` parses from the command."""
    program, name, *arguments = shlex.split(command)
    assert (program, name) == ("edge-embed", "check")
    return check.make_context(name, arguments)


@pytest.mark.parametrize(
    ("model", "exported"),
    [("model.pt", "model.onnx"), ("-model.pt", "--out.onnx"), ("a b/ü.pt", "it's $x.onnx"), ("dir/-m.pt", "/-/x.onnx")],
)
def test_accept_command_names_files_with_any_name(model: str, exported: str) -> None:
    found = parsed(accept_command(model, Path(exported), Budget(), BASELINE, [])).params
    assert (found["model"], found["exported"]) == (Path(model), Path(exported))
    assert (found["baseline"], found["accept"]) == (BASELINE, True)


def test_budget_name_that_begins_with_a_dash_is_no_option() -> None:
    budget = Budget(Path("-b.toml"), model=Path("-m.pt"), exported=Path("-m.onnx"), baseline=Path("-b.json"))
    command = accept_command("-m.pt", Path("-m.onnx"), budget, Path("-b.json"), [])
    found = parsed(command).params
    assert (found["budget"], found["model"], found["baseline"]) == (Path("-b.toml"), None, None)


def test_accept_command_is_empty_without_baseline_or_file() -> None:
    assert accept_command("m.pt", Path("m.onnx"), Budget(), None, []) == ""
    assert accept_command(object(), Path("m.onnx"), Budget(), BASELINE, []) == "edge_embed.check(..., accept=True)"
