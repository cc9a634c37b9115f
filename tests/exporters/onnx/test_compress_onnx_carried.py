"""Tables that a loop carries, and tables behind branches, sequences and optionals."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper
from onnx.helper import make_node, make_tensor_value_info

from edge_embed.errors import BadInputError

from .test_compress_onnx_tools import COLUMNS, IDS, ROWS, V, W, compress, gather, same, written

TIMES = make_node("Constant", [], ["times"], value=numpy_helper.from_array(np.array(2)))
FLOAT = TensorProto.FLOAT


def repeat(*nodes: NodeProto, carried: str = "w", returned: str = "next", own: str = "", **more: Any) -> NodeProto:
    """Return a loop that carries a value as ``t`` and whose steps give ``z``; the suffix makes inner names unique."""
    i, go, on, t, z = (f"{name}{own}" for name in ("i", "go", "on", "t", "z"))
    inputs = [make_tensor_value_info(i, TensorProto.INT64, []), make_tensor_value_info(go, TensorProto.BOOL, [])]
    outputs = [make_tensor_value_info(on, TensorProto.BOOL, []), make_tensor_value_info(returned, FLOAT, None)]
    body = helper.make_graph(
        [make_node("Identity", [go], [on]), *nodes], "body", [*inputs, make_tensor_value_info(t, FLOAT, None)],
        [*outputs, make_tensor_value_info(z, FLOAT, None)],
    )  # fmt: skip
    return make_node("Loop", ["times", "", carried], more.get("results", ["last", "y"]), f"repeat{own}", body=body)


SAME = make_node("Identity", ["t"], ["next"])
INNER = repeat(
    gather("t_2", y="z_2"), make_node("Identity", ["t_2"], ["again"]), carried="t", returned="again", own="_2",
    results=["next", "many"],
)  # fmt: skip


@pytest.mark.parametrize("opset", [13, 18])
@pytest.mark.parametrize(
    "nodes",
    [
        [repeat(gather("t", y="z"), SAME)],
        [repeat(gather("t", y="z"), returned="t")],
        [repeat(gather("t", y="z"), SAME, results=("after", "a")), gather("after", y="b"),
         make_node("Add", ["a", "b"], ["y"])],
        [repeat(INNER, make_node("ReduceSum", ["many"], ["z"]))],
    ],
    ids=["copied", "itself", "behind", "nested"],
)  # fmt: skip
def test_table_carried_unchanged_by_loop_is_packed(nodes: list[NodeProto], opset: int, tmp_path: Path) -> None:
    assert same(written([TIMES, *nodes], {"w": W}, opset), tmp_path) == ["w"]
    assert not any(tensor.name == "w" for tensor in onnx.load(tmp_path / "small.onnx").graph.initializer)


def test_table_carried_unchanged_by_scan_is_packed(tmp_path: Path) -> None:
    body = helper.make_graph(
        [gather("t", ids="some", y="z"), SAME], "body",
        [make_tensor_value_info("t", FLOAT, [ROWS, COLUMNS]), make_tensor_value_info("some", TensorProto.INT64, ["s"])],
        [make_tensor_value_info("next", FLOAT, [ROWS, COLUMNS]), make_tensor_value_info("z", FLOAT, None)],
    )  # fmt: skip
    scan = make_node("Scan", ["w", "ids"], ["last", "y"], num_scan_inputs=1, body=body)
    assert same(written([scan], {"w": W}, inputs={"ids": ["b", "s"]}), tmp_path, {"ids": IDS[None]}) == ["w"]


def test_table_changed_by_loop_is_still_carried(tmp_path: Path) -> None:
    changed = repeat(make_node("Neg", ["t"], ["next"]), make_node("Identity", ["t"], ["z"]), carried="small")
    nodes = [TIMES, changed, gather(y="rows")]
    made = written(nodes, {"w": W, "small": np.ones((2, 2), np.float32)})
    made.graph.output.append(make_tensor_value_info("rows", FLOAT, None))
    assert same(made, tmp_path) == ["w"]


def _choice() -> list[NodeProto]:
    branches = [
        helper.make_graph([make_node("Identity", [name], ["z"])], name, [], [make_tensor_value_info("z", FLOAT, None)])
        for name in "wv"
    ]
    choice = make_node("If", ["is"], ["t"], "choose", then_branch=branches[0], else_branch=branches[1])
    return [make_node("Cast", ["ids_0"], ["is"], to=TensorProto.BOOL), choice, gather("t")]


ZERO = make_node("Constant", [], ["zero"], value=numpy_helper.from_array(np.array(0)))


@pytest.mark.parametrize(
    ("nodes", "by", "user"),
    [
        ([TIMES, repeat(gather("t", y="z"), make_node("Neg", ["t"], ["next"], "negate"))],
         r"Loop 'repeat', which may be another tensor; Neg 'negate' also uses that result", "Gather 'look_up_z'"),
        ([TIMES, repeat(make_node("Identity", ["w"], ["z"]), returned="t", carried="one", results=["last", "all"]),
          make_node("GatherElements", ["all", "zero_ids"], ["y"], "pick")],
         r"Loop 'repeat', which may", "GatherElements 'pick'"),
        (_choice(), r"If 'choose', which may", "Gather 'look_up_y'"),
        ([ZERO, make_node("SequenceConstruct", ["w", "v"], ["all"], "build"),
          make_node("SequenceAt", ["all", "zero"], ["t"], "at"), gather("t")],
         r"SequenceConstruct 'build', SequenceAt 'at', which may", "Gather 'look_up_y'"),
    ],
    ids=["carried", "given by each step", "branch", "sequence"],
)  # fmt: skip
def test_table_handed_on_is_named_with_its_path_and_remedy(
    nodes: list[Any], by: str, user: str, tmp_path: Path
) -> None:
    tensors = {"w": W, "v": V, "one": np.float32(1), "zero_ids": np.zeros((1, 1, 1), np.int64)}
    message = (
        rf"w: its lookups use a result of {by}.*: look rows up in the constant itself.* "
        rf"\(float32 \[300, 16\] of 19,200 bytes, used by {user}\)"
    )
    with pytest.raises(BadInputError, match=message):
        compress(written(nodes, tensors, inputs={"ids": ["n"], "ids_0": []}), tmp_path)
