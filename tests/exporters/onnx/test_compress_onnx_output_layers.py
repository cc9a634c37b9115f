"""Untied output layers of ONNX files: listed with their sizes, and compressed when they are named."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import torch
from onnx import NodeProto
from onnx.helper import make_node

import edge_embed
from edge_embed.compression.onnx import write
from edge_embed.errors import BadInputError
from edge_embed.validation.options import ValidationOptions

from .test_compress_onnx_tools import COLUMNS, ROWS, W, compress, exact, gather, same, written

U = exact(7)
TURNED = np.ascontiguousarray(U.T)
UNTIED = "an output layer of {} bytes without lookups: give its name to compress it (--module output_layer)"
OUTPUT_LAYERS = {
    "MatMul": ([make_node("MatMul", ["h", "output_layer"], ["y"], "scores")], TURNED, "19,200"),
    "Gemm": ([make_node("Gemm", ["h", "output_layer", "b"], ["l"], transB=1),
              make_node("Softmax", ["l"], ["y"])], U, "19,200"),
    "float16": ([make_node("Cast", ["h"], ["half"], to=10), make_node("MatMul", ["half", "output_layer"], ["l"]),
                 make_node("Cast", ["l"], ["y"], to=1)], TURNED.astype(np.float16), "9,600"),
}  # fmt: skip


@pytest.mark.parametrize("case", OUTPUT_LAYERS)
def test_output_layer_untied_is_listed_with_size_and_compressed_by_name(case: str, tmp_path: Path) -> None:
    nodes, output_layer, nbytes = OUTPUT_LAYERS[case]
    made = written([gather(y="h"), *nodes], {"w": W, "output_layer": output_layer, "b": np.ones(ROWS, np.float32)}, 17)
    report = compress(made, tmp_path)
    assert [(table.name, table.reason) for table in report.tables] == [
        ("w", ""),
        ("output_layer", UNTIED.format(nbytes)),
    ]
    inspected = edge_embed.inspect(tmp_path / "model.onnx")
    assert [(dense.name, dense.num_embeddings) for dense in inspected.dense] == [("w", ROWS), ("output_layer", ROWS)]
    assert any(note.startswith("output_layer is an output layer without lookups") for note in inspected.notes)
    assert same(made, tmp_path, modules=["w", "output_layer"], force=True) == ["w", "output_layer"]


def test_inspect_lists_no_tied_output_layer(tmp_path: Path) -> None:
    made = written([gather(y="h"), make_node("MatMul", ["h", "turned"], ["y"])], {"w": W, "turned": W.T.copy()})
    compress(made, tmp_path)
    for name in ("model.onnx", "small.onnx"):
        assert not any("output layer" in note for note in edge_embed.inspect(tmp_path / name).notes)


INNER = [make_node("Gemm", ["h", "up"], ["u"], transB=1), make_node("Relu", ["u"], ["v"])]


@pytest.mark.parametrize("nodes", [
    [*INNER, make_node("MatMul", ["v", "down"], ["y"])],
    [make_node("MatMul", ["h", "small"], ["y"])],
])  # fmt: skip
def test_inner_and_small_layers_are_not_listed(nodes: list[NodeProto], tmp_path: Path) -> None:
    tensors = {"w": W, "up": U, "down": exact(8), "small": np.ones((COLUMNS, COLUMNS + 1), np.float32)}
    assert [table.name for table in compress(written([gather(y="h"), *nodes], tensors), tmp_path).tables] == ["w"]


def test_output_layer_without_tables_is_compressed_when_named(tmp_path: Path) -> None:
    made = written(
        [make_node("MatMul", ["x", "output_layer"], ["y"])], {"output_layer": TURNED}, inputs={"x": ["n", COLUMNS]}
    )
    with pytest.raises(
        BadInputError, match=r"no table to compress: output_layer: an output layer of 19,200 bytes.*--module"
    ):
        compress(made, tmp_path)
    feeds = {"x": np.ones((2, COLUMNS), np.float32)}
    assert same(made, tmp_path, feeds, modules=["output_layer"]) == ["output_layer"]


@pytest.mark.parametrize(("nodes", "tensors"), [
    ([make_node("Neg", ["w"], ["other"])], {}),
    ([make_node("Slice", ["w", "zero", "half"], ["other"])], {"zero": np.array([0]), "half": np.array([ROWS // 2])}),
], ids=["Neg", "Slice"])  # fmt: skip
def test_table_sharing_constant_with_output_layer_is_compressed_by_both_names(
    nodes: list[NodeProto], tensors: dict[str, np.ndarray], tmp_path: Path
) -> None:
    output_layer = [make_node("Transpose", ["w"], ["turned"]), make_node("MatMul", ["rows", "turned"], ["y"])]
    made = written([*nodes, gather("other", "rows"), *output_layer], {"w": W, **tensors})
    with pytest.raises(BadInputError, match=r"no table to compress: w: .*name all of them \(--module w --module w_1\)"):
        compress(made, tmp_path)
    feeds = {"ids": np.array([3, 0, 149])}
    assert same(made, tmp_path, feeds, modules=["w", "w_1"]) == ["w", "w_1"]


def write_tied(path: Path) -> Path:
    output_layer = [make_node("Transpose", ["w"], ["turned"]), make_node("MatMul", ["rows", "turned"], ["y"])]
    onnx.save(written([gather("w", "rows"), *output_layer], {"w": W}), path)
    return path


def limits_in(path: Path) -> list[list[int]]:
    """Return the session memory of output layers, and of those in the bodies of rows."""
    made = onnx.load(path, load_external_data=False)
    of_rows = (body.node for body in made.functions if "Scaled" in body.name)
    return [
        [item.i for item in node.attribute if item.name == "memory_bytes"]
        for nodes in (made.graph.node, *of_rows)
        for node in nodes
        if node.op_type in ("DPQLogits", "DPQScaledLogits")
    ]


FORMS: list[dict[str, Any]] = [{"method": "dpq", "num_codes": 16, "num_groups": 4}, {"method": "rows", "bits": 4}]


@pytest.mark.parametrize("is_external", [True, False])
@pytest.mark.parametrize("wanted", FORMS)
def test_output_layer_with_external_weights_has_no_copy_in_sessions(
    wanted: dict[str, Any], is_external: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "AUTO_THRESHOLD", 1000 if is_external else 1 << 30)
    source = write_tied(tmp_path / "source.onnx")
    small = edge_embed.compress(source, output=tmp_path / "small.onnx", **wanted).model
    assert limits_in(small) == (1 + (wanted["method"] == "rows")) * [[0] if is_external else []]
    assert edge_embed.validate(source, small, options=ValidationOptions(iterations=0)).passed


@pytest.mark.parametrize(("wanted", "megabytes"), [(FORMS[0], 3), (FORMS[1], 0)])
def test_output_layer_has_given_session_memory(
    wanted: dict[str, Any], megabytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "AUTO_THRESHOLD", 1000 if megabytes else 1 << 30)
    source = write_tied(tmp_path / "source.onnx")
    small = edge_embed.compress(source, output=tmp_path / "small.onnx", memory_megabytes=megabytes, **wanted).model
    assert limits_in(small) == (1 + (wanted["method"] == "rows")) * [[megabytes << 20]]
    assert edge_embed.validate(source, small, options=ValidationOptions(iterations=0)).passed


def test_session_memory_without_use_is_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    source = tmp_path / "source.onnx"
    onnx.save(written([gather("w", "y")], {"w": W}), source)
    edge_embed.compress(source, output=tmp_path / "small.onnx", memory_megabytes=3, **FORMS[0])
    assert "memory_megabytes: no new table uses session memory" in caplog.text


@pytest.mark.parametrize("model", [torch.nn.Embedding(30, 4), "words.pt", "words.tflite"])
def test_session_memory_of_other_models_is_refused(model: Any, tmp_path: Path) -> None:
    given = tmp_path / model if isinstance(model, str) else model
    with pytest.raises(BadInputError, match="memory_megabytes: got a value, expected an ONNX file or a GenAI folder"):
        edge_embed.compress(given, output=tmp_path / "small.pt", memory_megabytes=3, **FORMS[0])


@pytest.mark.parametrize("model", [torch.nn.Embedding(30, 4), "words.pt", "words.onnx"])
def test_files_without_library_are_refused_for_other_models(model: Any, tmp_path: Path) -> None:
    given = tmp_path / model if isinstance(model, str) else model
    with pytest.raises(BadInputError, match="library: got False, expected a GenAI folder"):
        edge_embed.compress(given, output=tmp_path / "small.pt", library=False, **FORMS[0])
