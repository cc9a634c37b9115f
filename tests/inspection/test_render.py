"""Printed reports: they are complete, and no text of a file controls the terminal."""

import dataclasses
import io

import onnx
import pytest
from rich.console import Console

from edge_embed.inspection.doctor import Problem, TrainingInfo, diagnose
from edge_embed.inspection.inspect import inspect_file
from edge_embed.inspection.render import render_doctor, render_file


def text(render, report, **options):
    file = io.StringIO()
    render(report, Console(file=file, **options))
    return file.getvalue()


def test_plain_text_of_model_is_complete(made):
    lines = text(render_file, inspect_file(made / "external.onnx", verify=True)).splitlines()
    token = next(line.split() for line in lines if line.startswith("token"))
    assert token[:3] == ["token", "dpq", "packed"]
    assert " ".join(token[3:]).startswith(
        "500 x 32 K=16 D=8 4 bit, pad 3 15.8x codes 2,000 B + values 2,048 B 4,048 B ("
    )
    assert token[-1] == "matches"
    whole = "\n".join(lines)
    for part in (
        "K=5 D=4 3 bit, shared",
        "position",
        "inputs: ids int64[batch, sequence]",
        "outputs: logits float32[batch, sequence, 2]",
        "vocabulary: 500 tokens",
        "task: words",
        "DPQEmbedding: nodes: 3, with portable body",
        "external data external.onnx.data:",
    ):
        assert part in whole
    assert "\x1b" not in whole
    assert "\u2026" not in whole  # no text is truncated


@pytest.mark.parametrize("width", [40, 80, 160])
def test_terminal_text_has_colours_and_no_ellipsis(made, width):
    out = text(render_file, inspect_file(made / "model.pt"), force_terminal=True, width=width)
    assert "\x1b[" in out
    assert "\u2026" not in out


def test_text_names_difference_and_warning(files):
    model = onnx.load(files / "model.onnx")
    model.ClearField("functions")
    codes = next(tensor for tensor in model.graph.initializer if tensor.name == "token.codes")
    codes.raw_data = bytes(len(codes.raw_data))
    onnx.save(model, files / "model.onnx")
    out = text(render_file, inspect_file(files / "model.onnx", verify=True))
    assert "DPQEmbedding: nodes: 3, WITHOUT portable body" in out
    assert "warning: DPQEmbedding: no portable body" in out
    assert "DIFFERS: table 'token': codes differ" in out


def test_text_of_torch_save_file_names_class_and_remedy(made):
    out = text(render_file, inspect_file(made / "module.pt"))
    assert "Words" in out
    assert "edge_embed.save(model" in out


@pytest.mark.parametrize("options", [{}, {"force_terminal": True, "width": 200}])
def test_names_from_file_do_not_control_terminal(files, options):
    model = onnx.load(files / "model.onnx")
    model.graph.output[0].name = "\x1b]0;owned\x07[bold]x[/bold]"
    onnx.save(model, files / "model.onnx")
    out = text(render_file, inspect_file(files / "model.onnx"), **options)
    assert "\x1b]" not in out
    assert "\x07" not in out
    assert "[bold]x[/bold]" in out


def test_text_of_doctor_names_problems_and_remedies():
    report = diagnose()
    out = text(render_doctor, report)
    assert "registers and runs" in out
    assert "all well" in out
    report.problems.append(Problem("torch is not installed", "pip install torch"))
    out = text(render_doctor, report)
    assert "problem: torch is not installed" in out
    assert "  remedy: pip install torch" in out
    assert "all well" not in out
    assert f"instruction set: {report.training.isa}" in out
    lack = Problem("there is no training library", "make install")
    out = text(render_doctor, dataclasses.replace(report, training=TrainingInfo(lack=lack)))
    assert "training library: none; training is slower without it" in out
    assert "  there is no training library: make install" in out
