"""Limits of ONNX Runtime that exported files work around: a test that fails shows that its guard is obsolete."""

import subprocess
import sys

_EMPTY_BATCH = """
import numpy as np, onnxruntime
from onnx import TensorProto, helper, numpy_helper
weights = [numpy_helper.from_array(np.ones((1, 16, width), np.float32), name) for name, width in (("w", 3), ("r", 4))]
values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "y")]
node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=4)
graph = helper.make_graph([node], "lstm", values[:1], values[1:], weights)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
session.run(None, {"x": np.zeros((3, 1, 3), np.float32)})
print("one sentence runs", flush=True)
session.run(None, {"x": np.zeros((3, 0, 3), np.float32)})
"""


def test_lstm_of_runtime_aborts_on_empty_batch() -> None:
    done = subprocess.run([sys.executable, "-c", _EMPTY_BATCH], capture_output=True, text=True, check=False)
    assert done.stdout == "one sentence runs\n"
    assert done.returncode < 0  # ended by a signal
