"""Constants that a Loop or Scan carries from one step to the next without change.

The model is changed so that the body reads such a value from the outer graph. Then its lookups are visible.
"""

from dataclasses import dataclass

from onnx import GraphProto, NodeProto, helper

from edge_embed.compression.onnx.constant_values import Constants
from edge_embed.compression.onnx.foreign_model import ForeignModel
from edge_embed.compression.onnx.scopes import graphs_of, is_standard, scopes_of
from edge_embed.compression.onnx.table_uses import values_of


@dataclass(frozen=True)
class _Carried:
    """A value that a node carries.

    Attributes:
        node: the Loop or Scan.
        body: the body of the node.
        given: index of the first value among the inputs of the node.
        taken: index of the value among the inputs of the body.
        returned: index among the outputs of the body.
        place: index among the outputs of the node.
    """

    node: NodeProto
    body: GraphProto
    given: int
    taken: int
    returned: int
    place: int

    @property
    def first(self) -> str:
        """Return the name of its first value."""
        return str(self.node.input[self.given])

    @property
    def is_unchanged(self) -> bool:
        """Return whether each step returns the value that it received."""
        return _source(self.body, self.body.output[self.returned].name) == str(self.body.input[self.taken].name)


def take_from_around(file: ForeignModel) -> None:
    """Change a model so that unchanged constants of two or more axes are read from the outer graph, not carried."""
    while _take_one(file):
        pass


def _take_one(file: ForeignModel) -> bool:
    constants = Constants(file)
    for scope in scopes_of(file.model):
        for place, node in enumerate(scope.nodes):
            for carried in _all_carried(node):
                known = constants.known(scope, carried.first)
                if known is not None and len(known.shape) > 1 and carried.is_unchanged and not _is_hidden(carried):
                    _take(scope.graph, place, carried)
                    return True
    return False


def _is_hidden(carried: _Carried) -> bool:
    """Return whether the body has another value of that name."""
    body = carried.body
    held = (*body.input, *body.initializer, *(sparse.values for sparse in body.sparse_initializer))
    return carried.first in {*(value.name for value in held), *(name for node in body.node for name in node.output)}


def _all_carried(node: NodeProto) -> list[_Carried]:
    bodies = [*graphs_of(node)] if is_standard(node, "Loop", "Scan") else []
    if len(bodies) != 1:
        return []
    if node.op_type == "Loop":
        return [_Carried(node, bodies[0], at, at, at - 1, at - 2) for at in range(2, len(node.input))]
    count = len(node.input) - values_of(node)["num_scan_inputs"]
    return [_Carried(node, bodies[0], at, at, at, at) for at in range(count)]


def _source(graph: GraphProto, name: str) -> str:
    """Return the name of the value that a value of a graph is a copy of, or its own name."""
    makers = {output: node for node in graph.node for output in node.output}
    while name in makers:
        node = makers.pop(name)
        place = [*node.output].index(name)
        same = [each.first for each in _all_carried(node) if each.place == place and each.is_unchanged]
        if is_standard(node, "Identity"):
            same = [node.input[0]]
        if not same:
            break
        name = same[0]
    return name


def _take(graph: GraphProto, place: int, carried: _Carried) -> None:
    """Copy the value inside the body, and before the node; the node no longer carries it."""
    node, body = carried.node, carried.body
    inside = helper.make_node("Identity", [carried.first], [body.input[carried.taken].name])
    result = node.output[carried.place] if carried.place < len(node.output) else ""
    before = [helper.make_node("Identity", [carried.first], [result])] if result else []
    del body.input[carried.taken], body.output[carried.returned], node.input[carried.given]
    if carried.place < len(node.output):
        del node.output[carried.place]
    _insert(body, 0, [inside])
    _insert(graph, place, before)


def _insert(graph: GraphProto, place: int, nodes: list[NodeProto]) -> None:
    kept = [NodeProto.FromString(node.SerializeToString()) for node in graph.node]
    del graph.node[:]
    graph.node.extend([*kept[:place], *nodes, *kept[place:]])
