"""Outputs that cannot be written: every command refuses them before its work begins."""

from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from torch import nn

import edge_embed
from edge_embed.cli import main

COMMANDS = {
    "compress {model} --ratio 2 -o": "workflow.load",
    "compress {onnx} --ratio 2 -o": "workflow.compress_onnx",
    "compress {model} --ratio 2 -o {new}.pt --plot": "workflow.load",
    "compress {model} --ratio 2 -o {new}.pt --checkpoint": "workflow.load",
    "export {model} --target onnx -o": "workflow.load",
    "validate {model} {onnx} --save-inputs": "workflow.load",
    "validate {model} {onnx} --save-worst": "workflow.load",
    "validate {model} {onnx} --html": "workflow.load",
    "validate {model} {onnx} --markdown": "workflow.load",
    "check {model} {onnx} --output": "workflow.load",
    "check {model} {onnx} --accept --baseline": "workflow.load",
    "bench --rows 100 --dim 8 --plot": "bench.run._measured",
}
SUFFIXES = {"--html": ".html", "--markdown": ".md", "--plot": ".svg", "--checkpoint": "", "--target onnx -o": ".onnx"}
SUFFIXES |= {"compress {onnx} --ratio 2 -o": ".onnx", "bench --rows 100 --dim 8 --plot": ""}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("outputs")
    model = edge_embed.save(
        edge_embed.DPQEmbedding(90, 8, 4, 4).eval(), folder / "model.pt", torch.zeros(2, dtype=torch.int64)
    )
    edge_embed.export(model, "onnx", folder / "model.onnx", open=False)
    return {"model": model, "onnx": folder / "model.onnx"}


@pytest.mark.parametrize("command", COMMANDS)
def test_output_that_cannot_be_written_is_refused_before_work(command, files, tmp_path, monkeypatch):
    def work(*_, **__):
        raise AssertionError("the work began")

    monkeypatch.setattr(f"edge_embed.{COMMANDS[command]}", work)
    suffix = next((SUFFIXES[end] for end in SUFFIXES if command.endswith(end)), ".pt")
    suffix = SUFFIXES.get(command, suffix)
    given = command.format(**files, new=tmp_path / "new").split()
    (tmp_path / "file").write_text("")
    places = [tmp_path / "file" / f"out{suffix}"]
    places += [Path(f"/{name}/out{suffix}") for name in ("proc", "sys") if Path(f"/{name}").is_dir()]
    for place in places:
        result = CliRunner().invoke(main, [*given, str(place.parent if command.startswith("bench") else place)])
        assert result.exit_code in (1, 2), (place, result.exception, result.output)
        assert "cannot be written" in result.stderr or "is a file" in result.stderr, (place, result.stderr)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_python_functions_refuse_unwritable_folder(files, tmp_path):
    if not Path("/proc/self").is_dir():
        pytest.skip("/proc is not there")
    linear = nn.Linear(2, 2)
    with pytest.raises(edge_embed.OutputError, match=r"/proc/model.pt: cannot be written: .*; choose"):
        edge_embed.save(linear, "/proc/model.pt", torch.zeros(1, 2))
    with pytest.raises(edge_embed.OutputError, match=r"/proc/model.onnx: cannot be written: .*; choose"):
        edge_embed.export(files["model"], "onnx", "/proc/model.onnx")


@pytest.mark.parametrize("command", [*COMMANDS, "package --platform windows -o", "inspect"])
def test_empty_path_is_refused_by_name(command, files, tmp_path, monkeypatch):
    """An unset variable of a shell is one; it would stand for the current folder."""
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, [*command.format(**files, new="new").split(), ""])
    assert result.exit_code == 2
    assert "got an empty path, expected the path of a file or folder" in result.stderr
    assert not list(tmp_path.iterdir())
