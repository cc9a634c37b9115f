"""Separation of the tables from a lowered program: the rest, the body, exchanges values with them.

    program   ids -> rows -> ... -> hidden -> logits -> ... -> outputs
    body      inputs, rows, logits -> hidden, outputs

So a converter translates only the body, and never gets a table.
"""

from dataclasses import dataclass
from operator import getitem
from typing import Any

from torch import Tensor, fx

from edge_embed.lowering.graph import CALLS, Call, LoweredProgram, table_of
from edge_embed.program.program import ProgramModule


@dataclass(frozen=True)
class Value:
    """A value that the program computes, or is given."""

    name: str


@dataclass(frozen=True)
class Cut:
    """One use of a table.

    Attributes:
        call: the method and the use.
        table: name of the table.
        leading: the arguments before the table: values, weights of the model, or literals.
        results: its results, in order; None for unused ones.
    """

    call: Call
    table: str
    leading: tuple[Value | Tensor | str | int | None, ...]
    results: tuple[Value | None, ...]


@dataclass(frozen=True)
class CutProgram:
    """A program without its tables.

    Attributes:
        lowered: the program.
        cuts: uses of tables, in the order of the program.
        inputs: inputs of the program, in its order.
        outputs: outputs of the program, in its order.
        body: (inputs, given) -> made; None if there are only tables.
        given: results of tables that the body uses.
        made: results of the body: arguments of tables, outputs of the program.
    """

    lowered: LoweredProgram
    cuts: tuple[Cut, ...]
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    body: ProgramModule | None
    given: tuple[Value, ...]
    made: tuple[Value, ...]


def cut_program(lowered: LoweredProgram) -> CutProgram:
    """Cut the tables out of a lowered program, which does not change."""
    return _Cutting(lowered).run()


class _Cutting:
    def __init__(self, lowered: LoweredProgram) -> None:
        self._lowered = lowered
        self._graph = lowered.program.module.graph
        self._inputs = [node for node in self._graph.nodes if node.op == "placeholder"]
        self._uses = [node for node in self._graph.nodes if node.target in CALLS]
        self._results = {use: _results(use) for use in self._uses}
        self._given = [node for results in self._results.values() for node in results if node is not None]

    def run(self) -> CutProgram:
        outputs: list[fx.Node] = []
        fx.node.map_arg(self._graph.output_node().args, outputs.append)
        body, made = self._body([*(node for use in self._uses for node in self._leading(use)), *outputs])
        return CutProgram(
            self._lowered,
            tuple(map(self._cut, self._uses)),
            _values(self._inputs),
            _values(outputs),
            body,
            _values(self._given),
            _values(made),
        )

    def _cut(self, use: fx.Node) -> Cut:
        call = CALLS[use.target]
        leading = tuple(self._argument(argument) for argument in use.args[: call.leading])
        results = tuple(None if node is None else Value(node.name) for node in self._results[use])
        return Cut(call, table_of(use), leading, results)

    def _argument(self, argument: Any) -> Any:
        if not isinstance(argument, fx.Node):
            return argument
        if argument.op == "get_attr":
            return self._lowered.program.module.weight(str(argument.target))
        return Value(argument.name)

    def _leading(self, use: fx.Node) -> list[fx.Node]:
        arguments = use.args[: CALLS[use.target].leading]
        return [argument for argument in arguments if isinstance(argument, fx.Node) and argument.op != "get_attr"]

    def _body(self, wanted: list[fx.Node]) -> tuple[ProgramModule | None, list[fx.Node]]:
        """Return the body, and the wanted values that it computes; the others are inputs or results of tables."""
        known = {*self._inputs, *self._given}
        made = [node for node in dict.fromkeys(wanted) if node not in known]
        if not made:
            return None, made
        graph = fx.Graph()
        copies = {node: graph.placeholder(node.name) for node in (*self._inputs, *self._given)}
        left_out = {*known, *self._uses, self._graph.output_node()}
        for node in self._graph.nodes:
            if node not in left_out:
                copies[node] = graph.node_copy(node, copies.__getitem__)
        graph.output(tuple(copies[node] for node in made))
        graph.eliminate_dead_code()
        kept = {str(node.target) for node in graph.nodes if node.op == "get_attr"}
        module = self._lowered.program.module
        return ProgramModule(graph, {name: module.weight(name) for name in sorted(kept)}), made


def _results(use: fx.Node) -> list[fx.Node | None]:
    """Return the nodes with the results of a use; several results are a tuple, whose parts are selected."""
    if CALLS[use.target].use != "topk":
        return [use]
    picked = {node.args[1]: node for node in use.users if node.target is getitem}
    return [picked.get(0), picked.get(1)]


def _values(nodes: list[fx.Node]) -> tuple[Value, ...]:
    return tuple(Value(node.name) for node in nodes)
