"""Malformed attributes in a file of an old opset, which make onnx's converter end the process."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import AttributeProto, NodeProto, TensorProto, helper, numpy_helper

TABLE = np.random.default_rng(0).normal(size=(400, 16)).astype(np.float32)


def file_of(path: Path, node: NodeProto, opset: int) -> Path:
    """Write a lookup followed by a node that a newer opset defines otherwise."""
    nodes = [helper.make_node("Gather", ["words", "ids"], ["rows"]), node]
    ids = helper.make_tensor_value_info("ids", TensorProto.INT64, ["n"])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "g", [ids], [result], [numpy_helper.from_array(TABLE, "words")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path


def mistyped(operator: str, name: str, kind: int, **data: object) -> NodeProto:
    """Return a node with an attribute whose declared type differs from its content, or is empty."""
    attribute = AttributeProto(name=name, type=kind, **data)
    node = helper.make_node(operator, ["rows"], ["y"])
    node.attribute.append(attribute)
    return node


NODES = {
    "integers that are a float": (mistyped("Squeeze", "axes", AttributeProto.INTS, f=1.0), 11),
    "a float that is integers": (mistyped("Unsqueeze", "axes", AttributeProto.FLOAT, ints=[0]), 12),
    "a string that is an integer": (mistyped("ReduceSum", "axes", AttributeProto.STRING, i=1), 11),
    "a tensor without one": (mistyped("Softmax", "axis", AttributeProto.TENSOR), 11),
    "a graph without one": (mistyped("ReduceMean", "axes", AttributeProto.GRAPH), 13),
}


PROGRAM = """
import sys
from click.testing import CliRunner
from edge_embed.cli import main
wanted = ["--method", "dpq", "--num-codes", "8", "--num-groups", "4", "--no-open", "--quiet"]
for path in sys.argv[1:]:
    done = CliRunner().invoke(main, ["compress", path, "-o", path + ".out.onnx", *wanted])
    print(done.exit_code, repr(done.exception), done.stderr.replace("\\n", "|"), flush=True)
"""


@pytest.mark.slow
def test_compress_of_malformed_attributes_ends_with_message(tmp_path):
    paths = [file_of(tmp_path / f"{at}.onnx", *NODES[kind]) for at, kind in enumerate(NODES)]
    sound = helper.make_node("Unsqueeze", ["rows"], ["y"], axes=[0])
    paths.append(file_of(tmp_path / "sound.onnx", sound, 11))
    command = [sys.executable, "-c", PROGRAM, *map(str, paths)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    said = dict(zip([*NODES, "sound"], done.stdout.splitlines(), strict=False))
    assert done.returncode == 0, (done.returncode, said)  # a signal is below 0; the first missing case was its cause
    assert said.pop("sound").startswith("0 None ")
    for kind, line in said.items():
        assert re.fullmatch(r"2 SystemExit\(2\) Error: [^|]+\|", line), (kind, line)
    assert [each.name for each in tmp_path.glob("*.out.onnx")] == ["sound.onnx.out.onnx"]
    converted = onnx.load(tmp_path / "sound.onnx.out.onnx")
    assert max(item.version for item in converted.opset_import if not item.domain) >= 18
