"""The graphs of a model, each with its outer graphs, whose values are visible by name."""

from collections.abc import Iterable, Iterator
from functools import cached_property

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from edge_embed.compression.onnx.folded_values import constant_values
from edge_embed.compression.onnx.node_tensors import Held, held_by, sparse_tensors

OVERRIDABLE_FROM_IR = 4  # in earlier versions an initializer is listed among the inputs and remains a constant
STANDARD = ("", "ai.onnx")


class Scope:
    """One graph.

    Attributes:
        graph: the graph, or the body of a branch or loop.
        outer: the scope around it; None for the graph of the model.
        holder: the node whose branch or body it is.
        inner: the scopes of the branches and bodies of its nodes.
        makers: the place and node that compute a value, by its name.
        tensors: initializers, including sparse ones, and the tensors of ``Constant`` nodes, by name.
        given: inputs for which a caller may supply a value.
        depth: number of graphs around it.
    """

    def __init__(
        self, graph: GraphProto, ir_version: int, outer: "Scope | None" = None, holder: NodeProto | None = None
    ) -> None:
        self.graph, self.outer, self.holder = graph, outer, holder
        self.nodes = list(graph.node)
        self.makers = {name: (place, node) for place, node in enumerate(self.nodes) for name in node.output if name}
        self.tensors: dict[str, Held] = {tensor.name: tensor for tensor in graph.initializer}
        self.tensors |= sparse_tensors(graph)
        self.tensors |= dict(_constants(self.nodes))
        self.given = {value.name for value in graph.input}
        if ir_version < OVERRIDABLE_FROM_IR:
            self.given -= self.tensors.keys()
        self.depth: int = 0 if outer is None else outer.depth + 1
        self._own = self.given | self.tensors.keys() | self.makers.keys()
        self.inner = [Scope(inside, ir_version, self, node) for node in self.nodes for inside in graphs_of(node)]

    def owner(self, name: str) -> "Scope | None":
        """Return the scope that defines a name: this one, or an outer one."""
        scope: Scope | None = self
        while scope is not None and name not in scope._own:
            scope = scope.outer
        return scope

    @cached_property
    def constants(self) -> set[str]:
        """Return the names whose values are known before the graph runs, including those of outer graphs."""
        around = set() if self.outer is None else self.outer.constants - self._own
        return constant_values(self.graph, self.given, around)

    def walk(self) -> Iterator["Scope"]:
        """Yield this scope and those inside it, outer ones first."""
        yield self
        for scope in self.inner:
            yield from scope.walk()


def scopes_of(model: ModelProto) -> list[Scope]:
    """Return all scopes of the graph of a model, outer ones first."""
    return list(Scope(model.graph, model.ir_version).walk())


def graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    """Yield the branches and bodies of a node."""
    for item in node.attribute:
        if item.type == AttributeProto.GRAPH:
            yield item.g
        yield from item.graphs


def walk(nodes: Iterable[NodeProto]) -> Iterator[NodeProto]:
    """Yield nodes, and those of the graphs inside them."""
    for node in nodes:
        yield node
        for graph in graphs_of(node):
            yield from walk(graph.node)


def is_standard(node: NodeProto, *op_types: str) -> bool:
    """Return whether a node is one of these standard operators."""
    return node.op_type in op_types and node.domain in STANDARD


def spelled(node: NodeProto) -> str:
    """Return the description of a node for messages."""
    return f"{node.op_type} {node.name!r:.100}" if node.name else node.op_type


def _constants(nodes: Iterable[NodeProto]) -> Iterator[tuple[str, Held]]:
    for node in nodes:
        if is_standard(node, "Constant") and node.output and (tensor := held_by(node)) is not None:
            yield node.output[0], tensor
