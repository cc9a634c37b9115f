"""Originals whose products round hidden states to 8 bits are compared in float32."""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

from edge_embed.validation.pair.float_states import in_float

ROWS, DIM, BLOCK = 8, 64, 32


def write_product(path: Path, level: int) -> np.ndarray:
    """Write a product with 4-bit weights, inside a branch too, and return the weights [n, d]."""
    random = np.random.default_rng(0)
    packed = random.integers(0, 256, (ROWS, DIM // BLOCK, BLOCK // 2), np.uint8)
    scales = random.random(ROWS * DIM // BLOCK, np.float32)
    values = np.stack((packed & 15, packed >> 4), -1).reshape(ROWS, DIM).astype(np.float64) - 8
    sizes = {"N": ROWS, "K": DIM, "bits": 4, "block_size": BLOCK, "accuracy_level": level}
    node = helper.make_node("MatMulNBits", ["hidden", "packed", "scales"], ["logits"], domain="com.microsoft", **sizes)
    inner = helper.make_graph([node], "branch", [], [helper.make_tensor_value_info("logits", TensorProto.FLOAT, None)])
    branch = helper.make_node("If", ["true"], ["result"], then_branch=inner, else_branch=inner)
    stored = {"packed": packed, "scales": scales, "true": np.array(True)}
    graph = helper.make_graph(
        [branch],
        "product",
        [helper.make_tensor_value_info("hidden", TensorProto.FLOAT, ["n", DIM])],
        [helper.make_tensor_value_info("result", TensorProto.FLOAT, ["n", ROWS])],
        [numpy_helper.from_array(value, name) for name, value in stored.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return values * np.repeat(scales.reshape(ROWS, -1), BLOCK, 1)


def error_of(path: Path, weights: np.ndarray) -> float:
    hidden = np.random.default_rng(1).standard_normal((5, DIM)).astype(np.float32)
    (got,) = onnxruntime.InferenceSession(path).run(None, {"hidden": hidden})
    expected = hidden.astype(np.float64) @ weights.T
    return float(np.abs(got - expected).max() / np.abs(expected).max())


def test_copy_in_float_multiplies_without_rounding(tmp_path: Path) -> None:
    original = tmp_path / "model.onnx"
    weights = write_product(original, level=4)
    copy = in_float(original, tmp_path / "copy.onnx")
    assert copy != original
    assert error_of(copy, weights) < 1e-6
    assert error_of(original, weights) > 1e-4


@pytest.mark.parametrize("level", [0, 1])
def test_model_without_rounding_is_not_copied(tmp_path: Path, level: int) -> None:
    write_product(tmp_path / "model.onnx", level)
    assert in_float(tmp_path / "model.onnx", tmp_path / "copy.onnx") == tmp_path / "model.onnx"
    assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]
