"""Sparse tensors, which onnx's converter refuses in nodes and drops in bodies: it sees nodes of another domain instead.

A sparse initializer of a body becomes a ``Constant`` of it, which means the same.
"""

from onnx import GraphProto, NodeProto, SparseTensorProto, helper

from edge_embed.exporters.onnx.foreign.held import held_by, sparse_tensors
from edge_embed.exporters.onnx.foreign.scopes import graphs_of, is_standard

ASIDE = "edge_embed.aside"
_Constants = dict[str, NodeProto]  # by the mark of the node that stands for each


def set_aside(graph: GraphProto) -> _Constants:
    """Change the sparse constants of a graph, and those of its bodies: what stood there, by a mark.

    The sparse initializers of the graph itself stay.
    """
    found: _Constants = {}
    _set_aside(graph, found)
    return found


def put_back(graph: GraphProto, constants: _Constants) -> None:
    """Put what `set_aside` returned into a graph that was made of the other one."""
    for node in graph.node:
        if node.domain == ASIDE:
            node.CopyFrom(constants[node.op_type])
        for inner in graphs_of(node):
            put_back(inner, constants)


def _set_aside(graph: GraphProto, found: _Constants) -> None:
    for node in graph.node:
        held = held_by(node) if is_standard(node, "Constant") and node.output else None
        if isinstance(held, SparseTensorProto):
            node.CopyFrom(_stand_in(graph, node, held, found))
        for inner in graphs_of(node):
            _as_constants(inner)
            _set_aside(inner, found)


def _as_constants(graph: GraphProto) -> None:
    """Make nodes of the sparse initializers of a body, in front of those that take them."""
    sparse = sparse_tensors(graph)
    if sparse:
        made = [helper.make_node("Constant", [], [name], sparse_value=held) for name, held in sparse.items()]
        nodes = [NodeProto.FromString(node.SerializeToString()) for node in graph.node]
        del graph.sparse_initializer[:], graph.node[:]
        graph.node.extend([*made, *nodes])


def _stand_in(graph: GraphProto, node: NodeProto, held: SparseTensorProto, found: _Constants) -> NodeProto:
    mark, name = f"Sparse{len(found)}", node.output[0]
    found[mark] = NodeProto.FromString(node.SerializeToString())
    if all(value.name != name for value in graph.value_info):
        graph.value_info.append(helper.make_tensor_value_info(name, held.values.data_type, held.dims))
    return helper.make_node(mark, [], [name], domain=ASIDE)
