"""Files of older opsets give the same results after compression; a file that cannot be converted names the node."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.helper import make_node, make_tensor_value_info

from edge_embed.errors import BadInputError

from .test_compress_onnx_tools import COLUMNS, IDS, V, W, compress, gather, run, same, sparse, written

FLOATS = np.random.default_rng(0).standard_normal((2, COLUMNS)).astype(np.float32)


def constant(name: str, array: Any) -> NodeProto:
    return make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(array)))


def body(*nodes: NodeProto, table: onnx.SparseTensorProto | None = None, loops: bool = False) -> onnx.GraphProto:
    """Return a branch, or a loop body that continues, with the result ``z``."""
    goes = [make_node("Identity", ["go"], ["on"])] if loops else []
    inputs = [make_tensor_value_info("i", TensorProto.INT64, []), make_tensor_value_info("go", TensorProto.BOOL, [])]
    outputs = [make_tensor_value_info("z", TensorProto.FLOAT, None)]
    if loops:
        outputs.insert(0, make_tensor_value_info("on", TensorProto.BOOL, []))
    made = helper.make_graph([*nodes, *goes], "body", inputs if loops else [], outputs)
    if table is not None:
        made.sparse_initializer.append(table)
    return made


@pytest.mark.parametrize("opset", [11, 16])
@pytest.mark.parametrize("as_constant", [True, False])
def test_sparse_tables_of_bodies_are_read(as_constant: bool, opset: int, tmp_path: Path) -> None:
    tables = [sparse(W), sparse(V)]
    inside = [[make_node("Constant", [], ["w"], sparse_value=one)] if as_constant else [] for one in tables]
    then, other = (
        body(*nodes, gather(y="z"), table=None if as_constant else one)
        for nodes, one in zip(inside, tables, strict=True)
    )
    choice = make_node("If", ["is"], ["y"], "choose", then_branch=then, else_branch=other)
    made = written([constant("is", False), choice], {}, opset)
    assert same(made, tmp_path) == ["w", "w_1"]


@pytest.mark.parametrize("opset", [11, 13])
def test_sparse_table_of_function_in_loop_is_read(opset: int, tmp_path: Path) -> None:
    nodes = [make_node("Constant", [], ["w"], sparse_value=sparse(W)), gather(ids="i", y="r")]
    find = helper.make_function("own", "Find", ["i"], ["r"], nodes, [helper.make_opsetid("", opset)])
    inner = body(make_node("Find", ["ids"], ["z"], domain="own"), loops=True)
    loop = make_node("Loop", ["times", ""], ["y"], "repeat", body=inner)
    report = compress(written([constant("times", 2), loop], {}, opset, functions=[find]), tmp_path)
    assert len(report.tables) == 1
    for portable in (True, False):  # only the new file: ONNX Runtime 1.31 at times ends the process on the original
        (rows,) = run(tmp_path / "small.onnx", {"ids": IDS}, portable=portable)
        np.testing.assert_allclose(rows, np.stack([W[IDS]] * 2), rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("opset", [12, 17])
@pytest.mark.parametrize("as_constant", [True, False])
def test_external_data_of_bodies_is_read(as_constant: bool, opset: int, tmp_path: Path) -> None:
    table = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=W.shape, data_location=TensorProto.EXTERNAL)
    table.external_data.add(key="location", value="weights.bin")
    (tmp_path / "weights.bin").write_bytes(W.tobytes())
    inner = body(*([make_node("Constant", [], ["w"], value=table)] if as_constant else []), gather(y="z"))
    inner.initializer.extend([] if as_constant else [table])
    choice = make_node("If", ["is"], ["y"], "choose", then_branch=inner, else_branch=body(gather("v", y="z")))
    assert same(written([constant("is", True), choice], {"v": V}, opset), tmp_path) == ["v", "w"]


def test_sparse_tensor_of_body_that_is_no_table_stays(tmp_path: Path) -> None:
    few = sparse(np.eye(COLUMNS, dtype=np.float32)[:3])
    few.values.name = "few"
    inner = body(gather(y="r"), make_node("MatMul", ["few", "turned"], ["p"]), make_node("Identity", ["p"], ["z"]))
    inner.sparse_initializer.append(few)
    choice = make_node("If", ["is"], ["z"], then_branch=inner, else_branch=inner)
    nodes = [constant("is", True), gather(y="rows"), choice, make_node("MatMul", ["rows", "t"], ["a"])]
    nodes += [make_node("Transpose", ["z"], ["b"]), make_node("Sub", ["a", "z"], ["y"])]
    made = written(nodes, {"w": W, "turned": FLOATS.T.copy(), "t": FLOATS.T.copy()}, 13)
    assert same(made, tmp_path) == ["w"]


def _resized(op_type: str, mode: str, scales: list[float], opset: int) -> onnx.ModelProto:
    as_attribute = {"scales": scales} if opset < 9 else {}
    nodes = [
        gather(y="rows"),
        make_node("Mul", ["rows", "weights"], ["r"]),
        make_node("Unsqueeze", ["r"], ["u"], axes=[0, 1]),
        make_node(op_type, ["u", *([] if as_attribute else ["scales"])], ["y"], "resize", mode=mode, **as_attribute),
    ]
    tensors = {"w": W, "weights": FLOATS[0], "scales": np.float32(scales)}
    return written(nodes, tensors if not as_attribute else {"w": W, "weights": FLOATS[0]}, opset)


@pytest.mark.parametrize(
    ("op_type", "mode", "scales", "opset"),
    [
        ("Upsample", "linear", [1, 1, 1.5, 2.6], 8),
        ("Upsample", "nearest", [1, 1, 1.5, 2.6], 9),
        ("Resize", "linear", [1, 1, 0.6, 2], 10),
        ("Resize", "nearest", [1, 1, 1, 2.6], 10),
        ("Resize", "nearest", [1, 1, 0.6, 0.7], 10),
    ],
)
def test_resize_of_older_opsets_keeps_pixel_positions(
    op_type: str, mode: str, scales: list[float], opset: int, tmp_path: Path
) -> None:
    assert same(_resized(op_type, mode, scales, opset), tmp_path) == ["w"]


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("inside", [False, True])
def test_hardmax_of_older_opsets_keeps_all_axes(axis: int, inside: bool, tmp_path: Path) -> None:
    node = make_node("Hardmax", ["cube"], ["z" if inside else "y"], axis=axis)
    if inside:
        node = make_node("If", ["is"], ["y"], then_branch=body(node), else_branch=body(node))
    nodes = [constant("is", True), gather(y="r"), make_node("Mul", ["r", "weights"], ["rows"])]
    nodes += [make_node("Reshape", ["rows", "sizes"], ["cube"]), node]
    made = written(nodes, {"w": W, "weights": FLOATS[0], "sizes": np.array([3, 4, 4])}, 12)
    assert same(made, tmp_path) == ["w"]


def test_operator_newer_in_onnx_than_in_onnx_runtime_is_raised(tmp_path: Path) -> None:
    assert same(written([gather(y="r"), make_node("ThresholdedRelu", ["r"], ["y"])], {"w": W}, 9), tmp_path) == ["w"]


NORM = make_node("BatchNormalization", ["r", "s", "s", "s", "s"], ["z"], "norm", spatial=0)
CHOICE = make_node("If", ["is"], ["y"], "choose", then_branch=body(NORM), else_branch=body(NORM))
SCALES = {"s": np.ones(COLUMNS, np.float32)}
HELD = r"export the model with opset 18.*'w' float32 \[300, 16\] of 19,200 bytes, used by Gather 'look_up_r'"


@pytest.mark.parametrize(
    ("nodes", "opset", "message"),
    [
        ([constant("is", True), CHOICE], 8, rf"\(a graph inside If 'choose': BatchNormalization 'norm': .*\): {HELD}"),
        ([make_node("ScaledTanh", ["r"], ["y"], "squash")], 9, rf"\(ScaledTanh 'squash': onnx has no .*\): {HELD}"),
        ([make_node("Scan", ["", "u", "u"], ["q", "y"], "scan", num_scan_inputs=1, body=body())], 8,
         r"got 8, whose Scan is batched.*\(Scan 'scan'\): export the model with opset 9 or later"),
        ([make_node("Unsqueeze", ["r"], ["u"], axes=[0, 1]),
          make_node("Resize", ["u", "scales"], ["y"], "resize", mode="nearest")], 10,
         r"got 10, whose Resize rounds up .*\(Resize 'resize', scales \[1.0, 1.0, 0.5, 2.0\]\): export"),
    ],
)  # fmt: skip
def test_file_that_cannot_be_raised_names_node_and_tables(
    nodes: list[NodeProto], opset: int, message: str, tmp_path: Path
) -> None:
    tensors = {"w": W, **SCALES, "scales": np.float32([1, 1, 0.5, 2])}
    with pytest.raises(BadInputError, match=message):
        compress(written([gather(y="r"), *nodes], tensors, opset), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
