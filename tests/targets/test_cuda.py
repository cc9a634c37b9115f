"""GPU targets without a GPU: they report the missing parts, and no other device takes their place."""

import onnx
import pytest
from onnx import TensorProto, helper

from edge_embed.targets.catalog import make_target
from edge_embed.targets.cuda import count_copies

NO_GPU = "CUDAExecutionProvider"


@pytest.mark.parametrize("name", ["onnxruntime-cuda", "onnxruntime-cuda:library"])
def test_gpu_target_without_package_is_not_run(tagger, monkeypatch, name):
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: ["CPUExecutionProvider"])
    (lack,) = make_target(name).lacks()
    assert NO_GPU in lack.what
    assert "pip install onnxruntime-gpu==" in lack.remedy
    result = tagger.on(name)
    assert (result.name, result.status) == (name, "not run")


def test_session_on_cpu_in_place_of_gpu_is_not_run(tagger, monkeypatch):
    monkeypatch.setattr("onnxruntime.get_available_providers", lambda: [NO_GPU, "CPUExecutionProvider"])
    monkeypatch.setattr("onnxruntime.InferenceSession.get_providers", lambda _: ["CPUExecutionProvider"])
    with pytest.warns(UserWarning, match=NO_GPU):
        result = tagger.on("onnxruntime-cuda")
    assert (result.status, result.outputs) == ("not run", ())
    assert "found no usable GPU" in result.detail


def test_copies_are_counted_in_optimised_graph(tmp_path):
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])
    nodes = [
        helper.make_node("MemcpyToHost", ["x"], ["a"]),
        helper.make_node("Sin", ["a"], ["b"]),
        helper.make_node("MemcpyFromHost", ["b"], ["y"]),
    ]
    graph = helper.make_graph(nodes, "g", [value], [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])])
    onnx.save(helper.make_model(graph), tmp_path / "optimized.onnx")
    assert count_copies(tmp_path / "optimized.onnx") == 2
