"""Stored values of the compressed tables in a program, as numbers that can be trained.

Values are the stored numbers of type float: centroids, scales, anchors, weights and cores. Codes, places and int8
numbers stay as they are. The rows [n, d] of a table are a differentiable function of its values.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx

from edge_embed.lowering.graph import CALLS, table_of
from edge_embed.ops.logits import row_blocks
from edge_embed.ops.operators import TableOperators
from edge_embed.program.program import Program, ProgramModule

Values = Mapping[str, Tensor]  # by name of the stored array


@dataclass(frozen=True, eq=False)
class StoredTable:
    """One compressed table of a program.

    Attributes:
        form: operators over its form.
        arguments: arguments of the form; a node stands for each stored array.
        module: the module that holds the arrays.
    """

    form: TableOperators
    arguments: Sequence[Any]
    module: ProgramModule

    @property
    def values(self) -> Iterator[tuple[str, Tensor]]:
        """Yield its stored numbers of type float, by name; empty arrays mark parts that a table lacks."""
        for name in self._names():
            stored = self.module.weight(name)
            if stored.is_floating_point() and stored.numel():
                yield name, stored

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the rows in the program."""
        rows: Tensor = self.form.plain["rows"](torch.arange(1), *self.given({}))
        return rows.dtype

    def rows(self, values: Values) -> Tensor:
        """Return all rows, float32 [n, d]."""
        return torch.cat([self._block(begin, end, values) for begin, end in self._blocks()])

    def add_gradients(self, values: Values, gradient: Tensor) -> None:
        """Add the gradient of the rows, [n, d], to those of its values; rows are computed again in blocks."""
        for begin, end in self._blocks():
            with torch.enable_grad():
                block = self._block(begin, end, values)
            block.backward(gradient[begin:end])

    def _blocks(self) -> Iterator[tuple[int, int]]:
        return row_blocks(*self.form.size(*self.given({})))

    def _block(self, begin: int, end: int, values: Values) -> Tensor:
        rows: Tensor = self.form.plain["rows"](torch.arange(begin, end), *self.given(values))
        return rows.float()

    def given(self, values: Values) -> tuple[Any, ...]:
        """Return the arguments of the form, with values in place of the arrays that they replace."""

        def array(node: fx.Node) -> Tensor:
            name = str(node.target)
            return values[name] if name in values else self.module.weight(name)

        given: tuple[Any, ...] = fx.node.map_arg(tuple(self.arguments), array)
        return given

    def _names(self) -> list[str]:
        nodes: list[fx.Node] = []
        fx.node.map_arg(tuple(self.arguments), nodes.append)
        return [str(node.target) for node in nodes]


def stored_tables(program: Program) -> dict[str, StoredTable]:
    """Return the compressed tables of a program by name."""
    calls = [node for node in program.module.graph.nodes if node.target in CALLS]
    return {
        table_of(node): StoredTable(CALLS[node.target].form, node.args[CALLS[node.target].leading :], program.module)
        for node in calls
    }


def with_values(program: Program, values: Values) -> Program:
    """Return a copy of a program with other values, rounded to the types that it stores."""
    module = program.module
    names = {str(node.target) for node in module.graph.find_nodes(op="get_attr")}
    weights = {name: module.weight(name) for name in sorted(names)}
    fitted = {name: value.detach().to(weights[name].dtype) for name, value in values.items()}
    return replace(program, module=ProgramModule(module.graph, weights | fitted))
