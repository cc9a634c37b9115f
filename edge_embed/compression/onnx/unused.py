"""Removal of unused parts: constants, and the nodes between them and the use of a table."""

from collections.abc import Collection, Iterator
from itertools import chain

from onnx import GraphProto, ModelProto

from edge_embed.compression.onnx.live_nodes import needed_nodes
from edge_embed.compression.onnx.scopes import graphs_of, scopes_of


def drop_unused(model: ModelProto, names: Collection[str]) -> None:
    """Remove unused initializers and nodes of these names, and the descriptions of removed values."""
    for graph in [*_graphs(model.graph)][::-1]:
        gone: set[str] = set()
        while found := _unused(graph, names) - gone:
            gone |= found
            _drop(graph, gone)


def drop_idle(model: ModelProto, names: Collection[str]) -> None:
    """Remove the nodes that no output depends on, if they use values of these names."""
    scopes = scopes_of(model)
    needed = needed_nodes(scopes)
    gone, idle = set(names), dict[int, list[int]]()
    for scope in scopes:
        for place, node in enumerate(scope.nodes):
            taken = chain(node.input, *(_used(inner) for inner in graphs_of(node)))
            if (id(scope), place) not in needed and not gone.isdisjoint(taken):
                idle.setdefault(id(scope), []).append(place)
                gone.update(filter(None, node.output))
    for scope in scopes[::-1]:
        for place in reversed(idle.get(id(scope), ())):
            del scope.graph.node[place]


def _unused(graph: GraphProto, names: Collection[str]) -> set[str]:
    used = set(_used(graph))
    held = (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
    found = {tensor.name for tensor in held if tensor.name in names and tensor.name not in used}
    for node in graph.node:
        outputs = {name for name in node.output if name}
        if outputs & set(names) and not outputs & used:
            found |= outputs
    return found


def _drop(graph: GraphProto, gone: Collection[str]) -> None:
    for place in reversed(range(len(graph.node))):
        outputs = [name for name in graph.node[place].output if name]
        if outputs and all(name in gone for name in outputs):
            del graph.node[place]
    for values in (graph.initializer, graph.value_info, graph.input):
        for place in reversed(range(len(values))):
            if values[place].name in gone:
                del values[place]
    for place in reversed(range(len(graph.sparse_initializer))):
        if graph.sparse_initializer[place].values.name in gone:
            del graph.sparse_initializer[place]
    for place in reversed(range(len(graph.quantization_annotation))):
        if graph.quantization_annotation[place].tensor_name in gone:
            del graph.quantization_annotation[place]


def _graphs(graph: GraphProto) -> Iterator[GraphProto]:
    """Yield a graph and those inside it, outer ones first."""
    yield graph
    for node in graph.node:
        for inner in graphs_of(node):
            yield from _graphs(inner)


def _used(graph: GraphProto) -> Iterator[str]:
    yield from (value.name for value in graph.output)
    for node in graph.node:
        yield from node.input
        for inner in graphs_of(node):
            yield from _used(inner)
