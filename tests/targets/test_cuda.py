"""GPU targets without a GPU: they report the missing parts, and no other device takes their place."""

import onnx
import pytest
import torch
from onnx import TensorProto, helper

from edge_embed.targets.catalog import make_target
from edge_embed.targets.cuda import count_copies
from edge_embed.targets.pytorch import full_float32

NO_GPU = "CUDAExecutionProvider"


@pytest.mark.parametrize("name", ["onnxruntime-cuda", "onnxruntime-cuda:library"])
@pytest.mark.slow
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


def test_torch_on_gpu_computes_float32_without_tf32_and_restores_settings():
    products, convolutions = torch.backends.cuda.matmul, torch.backends.cudnn
    before = products.fp32_precision, convolutions.allow_tf32
    with pytest.raises(RuntimeError, match="the model fails"), full_float32():
        assert (products.fp32_precision, convolutions.allow_tf32) == ("ieee", False)
        raise RuntimeError("the model fails")
    assert (products.fp32_precision, convolutions.allow_tf32) == before


def test_copies_are_counted_in_optimised_graph(tmp_path):
    save_graph(tmp_path / "optimized.onnx", copying_nodes("x"))
    assert count_copies(tmp_path / "optimized.onnx") == 2


def test_copies_are_counted_in_branches(tmp_path):
    bodies = {f"{name}_branch": graph_of(copying_nodes("x"), inputs=[]) for name in ("then", "else")}
    branch = helper.make_node("If", ["condition"], ["y"], **bodies)
    condition = helper.make_node("Constant", [], ["condition"], value_ints=[1])
    save_graph(tmp_path / "optimized.onnx", [condition, branch])
    assert count_copies(tmp_path / "optimized.onnx") == 4


VALUE = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])


def copying_nodes(given):
    return [
        helper.make_node("MemcpyToHost", [given], ["a"]),
        helper.make_node("Sin", ["a"], ["b"]),
        helper.make_node("MemcpyFromHost", ["b"], ["y"]),
    ]


def graph_of(nodes, inputs=(VALUE,)):
    return helper.make_graph(nodes, "g", list(inputs), [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1])])


def save_graph(path, nodes):
    onnx.save(helper.make_model(graph_of(nodes)), path)
