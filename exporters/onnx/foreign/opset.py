"""Raises the operator set of a model to one that has what the functions of packed tables use.

onnx's own converter does it, on a copy without large weights. It knows no functions, and not every operator: what it
does not know is refused.
"""

from onnx import ModelProto, TensorProto, checker, helper, version_converter
from onnx.defs import onnx_opset_version

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.foreign.read import ForeignModel
from edge_embed.exporters.onnx.model_file import expected_bytes
from edge_embed.exporters.onnx.names import OPSET

_SMALL = 1024  # bytes: axes and shapes, which the converter looks at
_REMEDY = f"export the model with opset {OPSET} or later"


def raise_opset(file: ForeignModel) -> None:
    """Convert a model to the operator set of the functions, where its own is lower.

    Raises:
        BadInputError: if it cannot be converted, or its operator set is newer than those known here.
    """
    model, opset = file.model, file.opset
    if opset > onnx_opset_version():
        raise BadInputError(f"opset: got {opset}, expected at most {onnx_opset_version()}: export it with an older one")
    if opset >= OPSET:
        return
    if model.functions:
        raise BadInputError(f"opset: got {opset} in a model with functions, expected {OPSET} or later: {_REMEDY}")
    lean = _without_weights(model)
    given = {tensor.name for tensor in lean.graph.initializer}
    try:
        checker.check_model(lean)  # before native code that believes what it is given
        converted = version_converter.convert_version(lean, OPSET)
        checker.check_model(converted)
    except Exception as error:  # whatever an adapter of the converter runs into
        reason = f"and onnx cannot convert it ({error!s:.200})"
        raise BadInputError(f"opset: got {opset}, expected {OPSET} or later, {reason}: {_REMEDY}") from error
    del model.graph.node[:]
    model.graph.node.extend(converted.graph.node)
    model.graph.initializer.extend(tensor for tensor in converted.graph.initializer if tensor.name not in given)
    for item in model.opset_import:
        if item.domain in ("", "ai.onnx"):
            item.version = OPSET


def _without_weights(model: ModelProto) -> ModelProto:
    """A copy in which larger weights are inputs."""
    lean = ModelProto(ir_version=max(4, model.ir_version), opset_import=model.opset_import)
    graph, inputs = model.graph, {value.name for value in model.graph.input}
    lean.graph.name = graph.name or "graph"
    for name in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(lean.graph, name).extend(getattr(graph, name))
    for tensor in graph.initializer:
        size = expected_bytes(tensor)
        if size is not None and size <= _SMALL and tensor.data_location != TensorProto.EXTERNAL:
            lean.graph.initializer.append(tensor)
        elif tensor.name not in inputs:
            lean.graph.input.append(helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
    return lean
