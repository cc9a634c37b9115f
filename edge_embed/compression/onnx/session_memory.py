"""Session memory of packed tables in a changed model."""

from collections.abc import Iterable, Iterator

from onnx import ModelProto, NodeProto, helper

from edge_embed.compression.onnx.scopes import walk
from edge_embed.exporters.onnx.bodies import OPERATORS
from edge_embed.exporters.onnx.names import DOMAIN, MEMORY_BYTES
from edge_embed.exporters.onnx.session_memory.method import memory_uses


def use_no_session_memory(model: ModelProto) -> None:
    """Set the limit 0 in nodes without a limit that may use session memory, and in the nodes inside their bodies."""
    for node in _nodes(model):
        if not any(item.name == MEMORY_BYTES for item in node.attribute):
            node.attribute.append(helper.make_attribute(MEMORY_BYTES, 0))


def uses_no_session_memory(model: ModelProto) -> bool:
    """Return whether a node of a model has the limit 0."""
    return any(item.name == MEMORY_BYTES and item.i == 0 for node in _nodes(model) for item in node.attribute)


def _nodes(model: ModelProto) -> Iterator[NodeProto]:
    yield from _with_memory(walk(model.graph.node))
    for body in model.functions:
        operator = OPERATORS.get(body.name) if body.domain == DOMAIN else None
        if operator is not None and operator.method.around is not None:  # a runtime inlines it
            yield from _with_memory(body.node)


def _with_memory(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    for node in nodes:
        operator = OPERATORS.get(node.op_type) if node.domain == DOMAIN else None
        if operator is not None and operator.use in memory_uses(operator.method.name):
            yield node
