"""The node of a model that onnx's converter refuses."""

from collections.abc import Iterator, Mapping

from onnx import (
    GraphProto,
    ModelProto,
    NodeProto,
    TensorProto,
    ValueInfoProto,
    checker,
    helper,
    shape_inference,
    version_converter,
)

from edge_embed.compression.onnx.scopes import graphs_of, is_standard, spelled, walk
from edge_embed.exporters.onnx.names import OPSET

_NO_SCHEMA = "has no registered schema"


def stuck_at(model: ModelProto, reason: str) -> str:
    """Return the node that alone is refused for the same reason as the model, followed by a colon, or an empty string.

    Args:
        model: the model without weights.
        reason: first line of the message.
    """
    values = _values(model)
    for node, where in _nodes(model.graph):
        if _refusal(model, node, values) == reason:
            return f"{where}{spelled(node)}: "
    return ""


def reason_of(error: Exception) -> str:
    """Return the first line of a message of onnx, without the place in its own code."""
    line = str(error).strip().split("\n")[0]
    if _NO_SCHEMA in line:  # onnx leaves the placeholders of this message empty
        return "onnx has no such operator"
    return line.rsplit("failed: ", 1)[-1][:200]


def _nodes(graph: GraphProto, where: str = "") -> Iterator[tuple[NodeProto, str]]:
    for node in graph.node:
        yield node, where
        for inner in graphs_of(node):
            yield from _nodes(inner, f"a graph inside {spelled(node)}: ")


def _values(model: ModelProto) -> Mapping[str, ValueInfoProto | TensorProto]:
    try:
        graph = shape_inference.infer_shapes(model).graph
    except Exception:  # any exception of shape inference; only values of the file are known then
        graph = model.graph
    values: dict[str, ValueInfoProto | TensorProto] = {
        value.name: value for value in (*graph.input, *graph.value_info, *graph.output)
    }
    held = {node.output[0]: item.t for node, _ in _nodes(graph) for item in node.attribute if _is_held(node, item.name)}
    return values | held | {tensor.name: tensor for tensor in graph.initializer}


def _is_held(node: NodeProto, attribute: str) -> bool:
    return is_standard(node, "Constant") and attribute == "value"


def _refusal(model: ModelProto, node: NodeProto, values: Mapping[str, ValueInfoProto | TensorProto]) -> str:
    """Return the reason why a node alone cannot be converted, or an empty string; nodes with graphs are skipped."""
    if any(graphs_of(node)):
        return ""
    results = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    graph = helper.make_graph([node], "alone", [], results)
    for name in dict.fromkeys(filter(None, node.input)):
        value = values.get(name)
        if isinstance(value, TensorProto):
            graph.initializer.append(value)
            graph.initializer[-1].name = name
        elif value is not None:
            graph.input.append(value)
    alone = ModelProto(ir_version=model.ir_version, opset_import=model.opset_import, graph=graph)
    try:
        check_nodes(alone)
        version_converter.convert_version(alone, OPSET)
    except Exception as error:  # any exception of the checker or an adapter
        return reason_of(error)
    return ""


def check_nodes(model: ModelProto) -> None:
    """Refuse nodes that the operator set lacks; types and shapes may be missing, as in files that run."""
    context = checker.C.CheckerContext()
    context.ir_version = model.ir_version
    context.opset_imports = {item.domain: item.version for item in model.opset_import}
    for node in walk(model.graph.node):
        if not any(graphs_of(node)):
            checker.check_node(node, context)
