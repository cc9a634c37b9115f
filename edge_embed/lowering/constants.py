"""Constants of a graph: nodes computed from weights alone, with their sizes and values.

Values come from the interpreter of the program. Sizes are known before anything is computed, because a graph of a few
bytes could request a tensor of terabytes.
"""

import math
import operator
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.fake_tensor import FakeTensorMode

from edge_embed.errors import BadInputError, one_line
from edge_embed.program.program import Program, ProgramInterpreter, ProgramModule
from edge_embed.steps import step

_ATEN = torch.ops.aten
_GROWTH = 4  # maximum bytes of a result, times the bytes of all weights
_LEAST_BYTES = 64 << 20  # allowed for every result
_LOOKUPS = {_ATEN.embedding.default, _ATEN.embedding_bag.padding_idx}  # of any ids: uses of a table


class Constants:
    """Constants of a program.

    Args:
        program: its graph must not change while this object is used.
    """

    def __init__(self, program: Program) -> None:
        self._program = program
        self._fakes: dict[fx.Node, Any] = {}
        self._sources: dict[fx.Node, frozenset[str]] = {}
        self._values: dict[fx.Node, Tensor] = {}
        weights = [program.module.weight(str(node.target)) for node in program.module.graph.find_nodes(op="get_attr")]
        self._most_bytes = max(_LEAST_BYTES, _GROWTH * sum(weight.nbytes for weight in weights))
        with torch.no_grad(), FakeTensorMode() as fakes:
            for node in program.module.graph.nodes:
                self._add(node, fakes)

    def __contains__(self, node: object) -> bool:
        """Return whether a node is a constant: a weight, or computed from constants only."""
        return node in self._fakes

    def sources(self, node: fx.Node) -> frozenset[str]:
        """Return the names of the weights that a constant is computed from."""
        return self._sources[node]

    def shape(self, node: fx.Node) -> tuple[int, ...]:
        """Return the shape of a constant; () if it is not a tensor."""
        fake = self._fakes[node]
        return tuple(fake.shape) if isinstance(fake, Tensor) else ()

    def dtype(self, node: fx.Node) -> torch.dtype | None:
        """Return the dtype of a constant; None if it is not a tensor."""
        fake = self._fakes[node]
        return fake.dtype if isinstance(fake, Tensor) else None

    def value(self, node: fx.Node) -> Tensor:
        """Return the value of a constant; a weight is not copied.

        Raises:
            BadInputError: if its operators fail on these weights.
        """
        if node.op == "get_attr":
            return self._program.module.weight(str(node.target))
        if node not in self._values:
            try:
                self._values[node] = self._run(node)
            except Exception as error:  # operators raise anything
                names = ", ".join(sorted(self._sources[node]))
                raise BadInputError(f"the computation from {names} alone fails: {one_line(error)}") from error
        return self._values[node]

    def example(self, node: fx.Node) -> Tensor | None:
        """Return the value of any node for the example inputs; None if it has none."""
        if node not in self._values:
            with suppress(Exception):  # operators raise anything for unsuitable examples
                self._values[node] = self._run(node)
        return self._values.get(node)

    def _add(self, node: fx.Node, fakes: FakeTensorMode) -> None:
        if node.op == "get_attr":
            self._fakes[node] = fakes.from_tensor(self._program.module.weight(str(node.target)))
            self._sources[node] = frozenset([str(node.target)])
        elif node.op == "call_function" and _is_folded(node) and all(item in self for item in node.all_input_nodes):
            result: Any = None
            with suppress(Exception):  # sizes that depend on values, or unsuitable arguments
                result = node.target(  # type: ignore[operator]
                    *fx.node.map_arg(node.args, self._fakes.__getitem__),
                    **fx.node.map_arg(node.kwargs, self._fakes.__getitem__),
                )
            if result is not None and _nbytes(result) <= self._most_bytes:
                self._fakes[node] = result
                self._sources[node] = frozenset().union(*map(self._sources.__getitem__, node.all_input_nodes))

    def _run(self, node: fx.Node) -> Tensor:
        """Compute one node from all nodes that it needs."""
        needed, waiting = {node}, [node]
        while waiting:
            new = set(waiting.pop().all_input_nodes) - needed
            needed |= new
            waiting += new
        graph, copies, inputs = fx.Graph(), dict[fx.Node, fx.Node](), []
        weights: dict[str, Tensor] = {}
        for each, example in self._with_examples():
            if each in needed:
                copies[each] = graph.node_copy(each, copies.__getitem__)
                inputs += [example] if each.op == "placeholder" else []
                weights |= {str(each.target): self.value(each)} if each.op == "get_attr" else {}
        graph.output(copies[node])
        with torch.no_grad(), step("tables are computed from weights"):
            result: Tensor = ProgramInterpreter(ProgramModule(graph, weights)).run(*inputs)
        return result

    def _with_examples(self) -> Iterator[tuple[fx.Node, Tensor | None]]:
        """Yield all nodes; those of inputs with their example."""
        examples = iter(self._program.example_inputs)
        for node in self._program.module.graph.nodes:
            yield node, next(examples) if node.op == "placeholder" else None


def _is_folded(node: fx.Node) -> bool:
    """Return whether a node is arithmetic. Packed tables and lookups of any ids are uses of a table instead."""
    return node.target is operator.getitem or (
        isinstance(node.target, torch._ops.OpOverload)
        and node.target.namespace == "aten"
        and node.target not in _LOOKUPS
    )


def _nbytes(result: Any) -> int:
    """Return the bytes of all tensors of a result, each at its full shape."""
    parts = result if isinstance(result, list | tuple) else [result]
    return sum(math.prod(part.shape) * part.dtype.itemsize for part in parts if isinstance(part, Tensor))
