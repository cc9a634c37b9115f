"""Operators that run other subgraphs: branches, loops, calls, and composites that a runtime may replace."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from edge_embed.exporters.tflite.flatbuffer import operator_names

# The options with numbers of subgraphs, and the number of inputs before their arguments.
_CALLING = {
    "IF": (("thenSubgraphIndex", "elseSubgraphIndex"), 1),
    "WHILE": (("condSubgraphIndex", "bodySubgraphIndex"), 0),
    "STABLEHLO_WHILE": (("condSubgraphIndex", "bodySubgraphIndex"), 0),
    "CALL": (("subgraph",), 0),
    "STABLEHLO_COMPOSITE": (("decompositionSubgraphIndex",), 0),
}
_LOOPS = ("WHILE", "STABLEHLO_WHILE")


@dataclass(frozen=True)
class Call:
    """An operator that runs subgraphs.

    Attributes:
        graph: number of the subgraph of the operator.
        operator: the operator, of the schema's classes.
        called: numbers of the subgraphs that it runs.
        arguments: numbers of the tensors of their inputs, in order.
        body: number of the subgraph whose outputs are the next inputs, or None if it is no loop.
    """

    graph: int
    operator: Any
    called: tuple[int, ...]
    arguments: tuple[int, ...]
    body: int | None

    def stays(self, model: Any, at: int) -> bool:
        """Return whether an argument is the same in every run: a loop must return it unchanged."""
        if self.body is None:
            return True
        body = model.subgraphs[self.body]
        return numbers(body.inputs)[at] == numbers(body.outputs)[at]


def numbers(tensors: Iterable[Any] | None) -> list[int]:
    """Convert numbers of tensors to Python integers; the schema's classes have arrays, or None."""
    return [] if tensors is None else list(map(int, tensors))


def operator_name(model: Any, operator: Any) -> str:
    """Return the name of an operator in the schema."""
    code = model.operatorCodes[operator.opcodeIndex]
    number = max(code.builtinCode, code.deprecatedBuiltinCode)
    return operator_names().get(number, str(number))


def call_of(model: Any, graph: int, operator: Any) -> Call | None:
    """Return the call of an operator, or None if it runs no subgraph with arguments."""
    name = operator_name(model, operator)
    if name not in _CALLING:
        return None
    fields, before = _CALLING[name]
    options = operator.builtinOptions or operator.builtinOptions2
    called = tuple(getattr(options, field) for field in fields)
    for number in called:
        if not 0 <= number < len(model.subgraphs):
            raise IndexError(f"subgraph {number}")
    body = called[1] if name in _LOOPS else None
    return Call(graph, operator, called, tuple(numbers(operator.inputs)[before:]), body)
