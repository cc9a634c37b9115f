"""An export is opened once before it gets its name; a file that no runtime opens leaves nothing behind."""

import sys
from pathlib import Path

import onnx
import pytest
import torch
from onnx import TensorProto, helper
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.report.results.exported import Opened
from edge_embed.validation import opening
from edge_embed.validation.opening import Opening, run_opens  # bound before conftest.py replaces it


class Double(nn.Module):
    """A table in float32, followed by an operator in float64."""

    def __init__(self, operator: nn.Module) -> None:
        super().__init__()
        self.words, self.operator = edge_embed.DPQEmbedding(40, 8, 4, 2).freeze(), operator.double()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.operator(self.words(ids).double())


class Plain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = edge_embed.DPQEmbedding(40, 8, 4, 2).freeze()

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.words(ids)


IDS = torch.tensor([[1, 2, 3]])


def test_export_is_opened_with_and_without_operator_library(tmp_path):
    report = edge_embed.export(Plain(), "onnx", tmp_path / "m.onnx", IDS)
    assert report.opened.ways == ("operator library", "portable body")
    assert report.to_json()["opened"]["runtime"].startswith("ONNX Runtime ")


def test_export_with_open_false_is_not_opened(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "run_opens", None)  # not called
    report = edge_embed.export(Plain(), "onnx", tmp_path / "m.onnx", IDS, open=False)
    assert report.opened == Opened()
    assert (tmp_path / "m.onnx").exists()


@pytest.mark.parametrize(("operator", "name"), [(nn.GELU(), "Erf"), (nn.Conv1d(3, 4, 3), "Conv")])
def test_export_of_operator_without_kernel_is_refused(tmp_path, operator, name):
    expected = rf"cannot be opened \(ONNX Runtime .*no kernel for {name} in this type: compute it in float32"
    with pytest.raises(BadInputError, match=expected):
        edge_embed.export(Double(operator), "onnx", tmp_path / "m.onnx", IDS)
    assert not list(tmp_path.iterdir())
    assert edge_embed.export(Double(operator), "onnx", tmp_path / "m.onnx", IDS, open=False).files


@pytest.mark.parametrize("external", ["never", "always"])
@pytest.mark.parametrize("force", [False, True])
def test_export_that_does_not_open_leaves_existing_file(tmp_path, monkeypatch, external, force):
    path = tmp_path / "m.onnx"
    if force:
        path.write_bytes(b"before")
    said = "[ONNXRuntimeError] : 9 : NOT_IMPLEMENTED : Could not find an implementation for Gelu(20) node with name 'n'"
    refused = {"runtime": "ONNX Runtime 1.31.1", "errors": {"portable body": said}}
    monkeypatch.setattr(opening, "run_opens", lambda target, arguments: refused)
    with pytest.raises(BadInputError, match=r"m\.onnx: .*no kernel for Gelu.*model\.float\(\).*--no-open"):
        edge_embed.export(Plain(), "onnx", path, IDS, force=force, external_data=external)
    assert [item.name for item in tmp_path.iterdir()] == (["m.onnx"] if force else [])
    assert not force or path.read_bytes() == b"before"


def product_file(path: Path, kind: int) -> Path:
    """Write a file with one MatMul of numbers of a type."""
    values = [helper.make_tensor_value_info(name, kind, [2, 2]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "x"], ["y"])], "product", values[:1], values[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10), path)
    return path


@pytest.mark.parametrize(
    ("kind", "said"), [(TensorProto.FLOAT, ""), (TensorProto.BFLOAT16, "Could not find an implementation for MatMul")]
)
def test_child_process_returns_errors_of_runtime(tmp_path, kind, said):
    found = run_opens("onnx", [str(product_file(tmp_path / "m.onnx", kind)), "", ""])
    assert found["runtime"].startswith("ONNX Runtime")
    assert list(found["errors"]) == ["portable body"]
    assert said in found["errors"]["portable body"]
    assert bool(said) == bool(found["errors"]["portable body"])


def test_child_process_returns_errors_of_litert(tmp_path):
    pytest.importorskip("ai_edge_litert")
    report = edge_embed.export(Plain(), "tflite", tmp_path / "m.tflite", IDS)
    assert report.opened.ways == ("built-in operators",)
    (tmp_path / "cut.tflite").write_bytes((tmp_path / "m.tflite").read_bytes()[:200])
    sound, cut = (run_opens("tflite", [str(tmp_path / name)]) for name in ("m.tflite", "cut.tflite"))
    assert sound["errors"] == {"built-in operators": ""}
    assert list(cut["errors"]) == ["built-in operators"]
    assert cut["errors"]["built-in operators"]


@pytest.mark.parametrize(
    ("code", "said"), [("import os; os.abort()", "SIGABRT"), ("import sys; sys.exit(3)", "status 3")]
)
def test_runtime_that_ends_process_is_named(tmp_path, monkeypatch, code, said):
    monkeypatch.setattr(opening, "script_command", lambda *parts: [sys.executable, "-c", code])
    monkeypatch.setattr(opening, "run_opens", run_opens)
    (tmp_path / "m.onnx").write_bytes(b"\x08\x0a")
    with pytest.raises(BadInputError, match=f"{said}.*Nothing was written"):
        Opening("onnx", tmp_path / "out.onnx")(tmp_path / "m.onnx")
