"""Session memory of packed tables in a changed model."""

from collections.abc import Collection, Iterable, Iterator

from onnx import ModelProto, NodeProto, helper

from edge_embed.compression.onnx.scopes import walk
from edge_embed.exporters.onnx.bodies import OPERATORS
from edge_embed.exporters.onnx.names import DOMAIN, MEMORY_BYTES
from edge_embed.exporters.onnx.session_memory.method import memory_uses
from edge_embed.packed.stored_names import table_of


def limit_session_memory(model: ModelProto, nbytes: int) -> bool:
    """Set a limit in nodes without one that may use session memory, and in the nodes inside their bodies.

    Returns:
        Whether there is such a node.
    """
    nodes = [node for node in _nodes(model) if not any(item.name == MEMORY_BYTES for item in node.attribute)]
    for node in nodes:
        node.attribute.append(helper.make_attribute(MEMORY_BYTES, nbytes))
    return bool(nodes)


def session_memory_limit(model: ModelProto, tables: Collection[str]) -> int | None:
    """Return the first limit of a node over some tables; None if there is none."""
    for node in _with_memory(walk(model.graph.node)):
        if table_of(node.input[OPERATORS[node.op_type].num_leading]) in tables:
            for item in node.attribute:
                if item.name == MEMORY_BYTES:
                    return int(item.i)
    return None


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
