"""Pairs whose originals differ from exports: tables in bodies only, odd names, files that the checker refuses."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import GraphProto, TensorProto, helper, numpy_helper

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.validation.pair.open import open_pair
from tests.exporters.onnx.foreign_models import COLUMNS, ROWS, look_up, model, saved, table
from tests.validation.pair.models import compressed, pair, validate

pytestmark = pytest.mark.usefixtures("_without_processes")
make_node, make_value = helper.make_node, helper.make_tensor_value_info
WIDE = ["batch", "sequence", COLUMNS]


def _body(seed: int) -> GraphProto:
    """Return a body with a table of its own and the same names as every other body."""
    rows = make_value("rows", TensorProto.FLOAT, None)
    tensors = [numpy_helper.from_array(table(seed=seed), "words.weight")]
    return helper.make_graph([look_up()], "body", [], [rows], tensors)


def branches() -> onnx.ModelProto:
    node = make_node("If", ["condition"], ["result"], then_branch=_body(0), else_branch=_body(1))
    inputs = {"condition": (TensorProto.BOOL, []), "ids": ["batch", "sequence"]}
    return model([node], {}, {"result": WIDE}, inputs=inputs)


def scan() -> onnx.ModelProto:
    """Return a Scan that sums the rows so far."""
    nodes = [
        look_up(ids="id"),
        make_node("Add", ["before", "rows"], ["after"]),
        make_node("Identity", ["after"], ["each"]),
    ]
    wide = {name: make_value(name, TensorProto.FLOAT, [COLUMNS]) for name in ("before", "after", "each")}
    tensors = [numpy_helper.from_array(table(), "words.weight")]
    inputs = [wide["before"], make_value("id", TensorProto.INT64, [])]
    body = helper.make_graph(nodes, "body", inputs, [wide["after"], wide["each"]], tensors)
    node = make_node("Scan", ["start", "ids"], ["last", "all"], body=body, num_scan_inputs=1)
    outputs = {"last": [COLUMNS], "all": ["sequence", COLUMNS]}
    return model([node], {"start": np.zeros(COLUMNS, np.float32)}, outputs, inputs={"ids": ["sequence"]})


@pytest.mark.parametrize("make", [branches, scan])
def test_tables_in_bodies_only_pass(make: Callable[[], onnx.ModelProto], tmp_path: Path) -> None:
    report = validate(*pair(tmp_path, make()))
    assert (report.exit_code, report.failures()) == (0, [])
    nodes = [check for found in report.tables for check in found.checks if check.name == "node"]
    assert [check.detail for check in nodes] == ["1 x DPQEmbedding"] * len(nodes)
    assert report.model.kernel.status == "passed"


@pytest.mark.parametrize("name", ["äöü 東京", "..", "__init__", '"a"\n'])
def test_table_may_have_any_name(name: str, tmp_path: Path) -> None:
    made = model([look_up(name)], {name: table()}, {"rows": WIDE})
    with open_pair(*pair(tmp_path, made)) as (program, lowered):
        assert all(check.status == "passed" for check in program.pair.structure)
        assert program.run(*program.example_inputs)[0].shape == (2, 5, COLUMNS)
        assert len(lowered.tables) == 1


def _not_sorted(made: onnx.ModelProto) -> None:
    look, relu = (onnx.NodeProto.FromString(node.SerializeToString()) for node in made.graph.node)
    del made.graph.node[:]
    made.graph.node.extend([relu, look])


def _without_a_name(made: onnx.ModelProto) -> None:
    made.graph.name = ""


def _refused_by_the_checker(change: Callable[[onnx.ModelProto], object], folder: Path) -> Path:
    made = model([look_up(), make_node("Relu", ["rows"], ["result"])], {"words.weight": table()}, {"result": WIDE})
    change(made)
    original = folder / "original.onnx"
    original.write_bytes(made.SerializeToString())
    return original


@pytest.mark.parametrize("change", [_not_sorted, _without_a_name])
def test_checker_errors_of_original_too_pass(change: Callable[[onnx.ModelProto], object], tmp_path: Path) -> None:
    original = _refused_by_the_checker(change, tmp_path)
    report = edge_embed.check(original, compressed(original))
    assert (report.exit_code, report.failures()) == (0, [])
    assert "the ONNX checker refuses it, as it refuses the original" in report.validation.structure[0].detail


def test_checker_errors_of_compressed_file_only_fail(tmp_path: Path) -> None:
    original, small = pair(tmp_path)
    made = onnx.load(small)
    _without_a_name(made)
    small.write_bytes(made.SerializeToString())
    with pytest.raises(BadInputError, match="the ONNX checker refuses it: Field 'name'"):
        validate(original, small)


@pytest.mark.parametrize(
    ("node", "constant", "sizes"),
    [
        (make_node("Reshape", ["rows", "given"], ["result"]), np.array([4, 7 * COLUMNS]), {"batch": 1, "sequence": 28}),
        (make_node("Reshape", ["rows", "given"], ["result"]), np.array([128, COLUMNS]), {"batch": 1, "sequence": 128}),
        (make_node("Add", ["rows", "given"], ["result"]), table(24), {"batch": 1, "sequence": 24}),
    ],
    ids=["both", "one", "positions"],
)  # fmt: skip
def test_sizes_fixed_by_graph_are_found(node: Any, constant: Any, sizes: dict[str, int], tmp_path: Path) -> None:
    made = model([look_up(), node], {"words.weight": table(), "given": constant}, {"result": [None] * 2})
    if node.op_type == "Add":
        made.graph.output[0].type.tensor_type.shape.dim.add()
    with open_pair(*pair(tmp_path, made)) as (program, _):
        assert program.example_sizes == sizes
        assert program.run(*program.example_inputs)


def test_map_output_is_compared_by_its_values(tmp_path: Path) -> None:
    nodes = [
        look_up(),
        make_node("ZipMap", ["rows"], ["scores"], domain="ai.onnx.ml", classlabels_int64s=range(COLUMNS)),
    ]
    made = model(nodes, {"words.weight": table()}, {}, inputs={"ids": ["batch"]})
    made.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    entry = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    made.graph.output.append(helper.make_value_info("scores", helper.make_sequence_type_proto(entry)))
    original = saved(made, tmp_path, "original.onnx")
    with open_pair(original, compressed(original)) as (program, _):
        (scores,) = program.original.run(*program.example_inputs)
        assert np.array_equal(scores, table()[program.example_inputs[0]])


def test_model_that_computes_with_ids_is_timed_on_accepted_ones(tmp_path: Path) -> None:
    made = model(
        [make_node("Add", ["ids", "step"], ["shifted"]), look_up(ids="shifted")],
        {"words.weight": table(), "step": np.int64(ROWS - 4)},
        {"rows": WIDE},
    )
    report = validate(*pair(tmp_path, made), iterations=2, warmup=0)
    assert (report.exit_code, report.failures()) == (0, [])
    ran = [found for found in report.latency.results if found.subject == "model"]
    assert [found.peer for found in ran if found.ratio is not None] == ["portable body", "original"]
