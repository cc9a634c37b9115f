"""A compressed ONNX or TFLite file is opened once before it gets its name, as an export is."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from click.testing import CliRunner
from onnx import TensorProto, helper, numpy_helper

import edge_embed
from edge_embed.cli import main
from edge_embed.errors import BadInputError
from edge_embed.report.results.exported import Opened
from edge_embed.validation import opening
from tests.exporters.tflite.foreign_files import write_foreign

TABLE = np.random.default_rng(0).normal(size=(400, 16)).astype(np.float32)
SIZES = {"method": "dpq", "num_codes": 8, "num_groups": 4}


def onnx_file(path: Path, operator: str = "Erf", domain: str = "", external: bool = False) -> Path:
    """Write a lookup followed by one operator, in float64 if that operator has no float64 kernel."""
    kind = TensorProto.DOUBLE if domain == "" and operator == "Erf" else TensorProto.FLOAT
    nodes = [
        helper.make_node("Gather", ["words", "ids"], ["rows"]),
        helper.make_node("Cast", ["rows"], ["wide"], to=kind),
        helper.make_node(operator, ["wide"], ["y"], domain=domain),
    ]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])
    result = helper.make_tensor_value_info("y", kind, ["n", 16])
    graph = helper.make_graph(nodes, "g", [ids], [result], [numpy_helper.from_array(TABLE, "words")])
    opsets = [helper.make_opsetid("", 18), *([helper.make_opsetid(domain, 1)] if domain else [])]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    onnx.save(model, path, save_as_external_data=external, size_threshold=0)
    return path


def files_of(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("external", [False, True])
def test_compressed_onnx_file_is_opened_with_and_without_operator_library(tmp_path, external):
    path = onnx_file(tmp_path / "in.onnx", "Relu", external=external)
    _, report = edge_embed.compress(path, output=tmp_path / "out.onnx", **SIZES)
    assert report.opened.ways == ("operator library", "portable body")
    assert report.to_json()["opened"]["runtime"].startswith("ONNX Runtime ")
    assert "opened in ONNX Runtime" in str(report)


def test_compressed_tflite_file_is_opened_once(tmp_path):
    path = write_foreign(tmp_path / "in.tflite", TABLE[:, :12].copy())
    _, report = edge_embed.compress(path, output=tmp_path / "out.tflite", **SIZES)
    assert report.opened.ways == ("built-in operators",)


@pytest.mark.parametrize(
    ("operator", "domain", "said"),
    [("Erf", "", "no kernel for Erf|find an implementation for Erf"), ("Theirs", "their.domain", "Theirs")],
)
def test_compressed_file_that_does_not_open_is_refused_without_output(tmp_path, operator, domain, said):
    path = onnx_file(tmp_path / "in.onnx", operator, domain)
    expected = rf"compressed file cannot be opened \(ONNX Runtime .*({said}).*in\.onnx cannot be opened there either"
    with pytest.raises(BadInputError, match=expected):
        edge_embed.compress(path, output=tmp_path / "out.onnx", **SIZES)
    assert files_of(tmp_path) == ["in.onnx"]
    _, report = edge_embed.compress(path, output=tmp_path / "out.onnx", open=False, **SIZES)
    assert report.opened == Opened()
    assert files_of(tmp_path) == ["in.onnx", "out.onnx"]


@pytest.mark.parametrize("suffix", ["onnx", "tflite"])
@pytest.mark.parametrize("force", [False, True])
def test_compressed_file_refused_by_runtime_leaves_existing_file(tmp_path, monkeypatch, suffix, force):
    path, output = tmp_path / f"in.{suffix}", tmp_path / f"out.{suffix}"
    _ = onnx_file(path, "Relu") if suffix == "onnx" else write_foreign(path, TABLE[:, :12].copy())
    if force:
        output.write_bytes(b"before")

    def run(target: str, arguments: list[str]) -> dict[str, object]:
        return {"runtime": "R 1", "errors": {"a way": "" if arguments[0] == str(path) else "no such thing"}}

    monkeypatch.setattr(opening, "run_opens", run)
    with pytest.raises(BadInputError, match=r"R 1, a way\): no such thing\. Nothing was written\. Please report"):
        edge_embed.compress(path, output=output, force=force, **SIZES)
    assert files_of(tmp_path) == sorted([path.name, *([output.name] if force else [])])
    assert not force or output.read_bytes() == b"before"


def test_compress_command_with_no_open_skips_opening(tmp_path, monkeypatch):
    path = onnx_file(tmp_path / "in.onnx")
    arguments = ["compress", str(path), "-o", str(tmp_path / "out.onnx"), "--method", "dpq"]
    arguments += ["--num-codes", "8", "--num-groups", "4", "--quiet"]
    refused = CliRunner().invoke(main, arguments)
    assert (refused.exit_code, files_of(tmp_path)) == (2, ["in.onnx"])
    assert "--no-open" in refused.output
    done = CliRunner().invoke(main, [*arguments, "--no-open"])
    assert (done.exit_code, files_of(tmp_path)) == (0, ["in.onnx", "out.onnx"])
