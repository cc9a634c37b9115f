"""Tensors that onnx's converter cannot handle, replaced by nodes of another domain, which it does not change.

The converter refuses sparse constants, drops sparse initializers of bodies, and searches external data in the current
folder.
"""

from onnx import GraphProto, NodeProto, SparseTensorProto, TensorProto, helper

from edge_embed.compression.onnx.node_tensors import Held, held_by, sparse_tensors
from edge_embed.compression.onnx.scopes import graphs_of, is_standard

_DOMAIN = "edge_embed.aside"


class Aside:
    """Tensors set aside from a graph and its bodies; initializers of the graph itself stay."""

    def __init__(self, graph: GraphProto) -> None:
        self._constants: dict[str, NodeProto] = {}
        self._initializers: dict[str, Held] = {}
        self._set_aside(graph)

    def put_back(self, graph: GraphProto) -> None:
        """Restore the tensors in a graph that was converted from the other one."""
        for place in reversed(range(len(graph.node))):
            node = graph.node[place]
            for inner in graphs_of(node):
                self.put_back(inner)
            if node.domain != _DOMAIN:
                continue
            if node.op_type in self._constants:
                node.CopyFrom(self._constants[node.op_type])
                continue
            held = self._initializers[node.op_type]
            (graph.initializer if isinstance(held, TensorProto) else graph.sparse_initializer).append(held)
            del graph.node[place]

    def _set_aside(self, graph: GraphProto) -> None:
        for node in graph.node:
            held = held_by(node) if is_standard(node, "Constant") and node.output else None
            if held is not None and _is_outside(held):
                mark = self._mark()
                self._constants[mark] = NodeProto.FromString(node.SerializeToString())
                node.CopyFrom(_stand_in(graph, mark, node.output[0], held))
            for inner in graphs_of(node):
                self._set_aside(inner)
                self._without_initializers(inner)

    def _without_initializers(self, body: GraphProto) -> None:
        outside: dict[str, Held] = {tensor.name: tensor for tensor in body.initializer if _is_outside(tensor)}
        outside |= sparse_tensors(body)
        made = []
        for name, held in outside.items():
            mark = self._mark()
            self._initializers[mark] = type(held).FromString(held.SerializeToString())
            made.append(_stand_in(body, mark, name, held))
        if not outside:
            return
        nodes = [*made, *(NodeProto.FromString(node.SerializeToString()) for node in body.node)]
        inside = [tensor for tensor in body.initializer if tensor.name not in outside]
        tensors = [TensorProto.FromString(tensor.SerializeToString()) for tensor in inside]
        del body.node[:], body.initializer[:], body.sparse_initializer[:]
        body.node.extend(nodes)
        body.initializer.extend(tensors)

    def _mark(self) -> str:
        return f"Tensor{len(self._constants) + len(self._initializers)}"


def _is_outside(held: Held) -> bool:
    return isinstance(held, SparseTensorProto) or held.data_location == TensorProto.EXTERNAL


def _stand_in(graph: GraphProto, mark: str, name: str, held: Held) -> NodeProto:
    kind = held.data_type if isinstance(held, TensorProto) else held.values.data_type
    if all(value.name != name for value in graph.value_info):
        graph.value_info.append(helper.make_tensor_value_info(name, kind, held.dims))
    return helper.make_node(mark, [], [name], domain=_DOMAIN)
