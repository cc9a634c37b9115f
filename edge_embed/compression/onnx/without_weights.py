"""A model without its weights, for the tools of onnx that read only nodes."""

from onnx import ModelProto, TensorProto, helper

from edge_embed.compression.onnx.node_tensors import sparse_tensors
from edge_embed.exporters.onnx.model_file import expected_bytes

_SMALL = 1024  # bytes: axes and shapes, which these tools read


def without_weights(model: ModelProto) -> ModelProto:
    """Return a copy in which larger weights and sparse ones are inputs, without functions."""
    lean = ModelProto(ir_version=max(4, model.ir_version), opset_import=model.opset_import)
    graph, inputs = model.graph, {value.name for value in model.graph.input}
    lean.graph.name = graph.name or "graph"
    for name in ("input", "output", "value_info"):
        getattr(lean.graph, name).extend(getattr(graph, name))
    for tensor in graph.initializer:
        size = expected_bytes(tensor)
        if size is not None and size <= _SMALL and tensor.data_location != TensorProto.EXTERNAL:
            lean.graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            lean.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    lean.graph.node.extend(graph.node)
    for name, tensor in sparse_tensors(graph).items():
        if name not in inputs:
            lean.graph.input.append(helper.make_tensor_value_info(name, tensor.values.data_type, tensor.dims))
    return lean
