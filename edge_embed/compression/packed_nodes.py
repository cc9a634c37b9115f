"""A program with packed tables in place of dense ones (`edge_embed.lowering.dense_tables`)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, fx

from edge_embed.fitting.fitted_table import ROTATION, Stored
from edge_embed.lowering.dense_tables import UsedTable, UsedTables
from edge_embed.lowering.folded_rotation import rotatable_weights, rotated, rotated_weight
from edge_embed.lowering.graph import METHODS
from edge_embed.lowering.table_uses import Call, Ids, rows_shape
from edge_embed.packed.stored_names import stored_name
from edge_embed.program.program import Program, ProgramModule, dtype_name

_ATEN = torch.ops.aten


def with_packed(program: Program, tables: Mapping[str, Stored]) -> Program:
    """Return a copy of a program with packed tables in place of dense ones.

    Args:
        program: the program, which does not change.
        tables: the stored form of tables that can be replaced, by the name of the table.
    """
    return _Packing(UsedTables(program), tables).run()


class _Packing:
    """One pass over a graph, which copies it node by node."""

    def __init__(self, used: UsedTables, stored: Mapping[str, Stored]) -> None:
        self._used, self._program = used, used.program
        self._taken = {str(node.target) for node in self._program.module.graph.find_nodes(op="get_attr")}
        self._stored = {table: stored[table.name] for table in used.tables if table.name in stored}
        self._table_of = {call.node: table for table in self._stored for call in table.calls}
        self._call_of = {call.node: call for table in self._stored for call in table.calls}
        self._weights: dict[str, Tensor] = {}
        self._prefixes = {table: self._store(table, each) for table, each in self._stored.items()}
        self._computed = dict(self._left())
        self._graph = fx.Graph()
        self._copies: dict[fx.Node, fx.Node] = {}

    def run(self) -> Program:
        for node in self._program.module.graph.nodes:
            self._copies[node] = self._copy(node)
        self._graph.eliminate_dead_code()
        kept = {str(node.target) for node in self._graph.find_nodes(op="get_attr")}
        dense = {name: self._program.module.weight(name) for name in sorted(kept - self._weights.keys())}
        return replace(self._program, module=ProgramModule(self._graph, dense | self._weights))

    def _store(self, table: UsedTable, stored: Stored) -> str:
        """Keep the tensors of a packed table and return their prefix."""
        prefix, arrays = table.name, stored.arrays()
        while any(stored_name(prefix, key) in self._taken for key in arrays):
            prefix += "_packed"
        self._weights |= {stored_name(prefix, key): torch.from_numpy(array) for key, array in arrays.items()}
        if stored.rotation is not None and stored.rotates == "folded":
            rotation, weight = torch.from_numpy(stored.rotation), self._program.module.weight
            (call,) = table.calls
            self._weights |= {each: rotated_weight(weight(each), rotation) for each in rotatable_weights(call.node)}
        return prefix

    def _left(self) -> Iterator[tuple[fx.Node, str]]:
        """Yield the constants of remaining tables whose weights are removed with other tables, and their new names."""
        gone = {name for table in self._stored for name in self._used.heavy(table)}
        for table in self._used.tables:
            if table in self._stored or gone.isdisjoint(table.sources):
                continue
            name = table.label
            while name in self._taken:
                name += "_computed"
            for constant in {call.constant for call in table.calls if call.constant.op != "get_attr"}:
                self._weights[name] = self._used.constants.value(constant).clone()
                yield constant, name
                name += "_computed"

    def _copy(self, node: fx.Node) -> fx.Node:
        if node in self._table_of:
            return self._packed_call(self._call_of[node], self._table_of[node])
        if node in self._computed:
            return self._graph.get_attr(self._computed[node])
        return self._graph.node_copy(node, self._copies.__getitem__)

    def _packed_call(self, call: Call, table: UsedTable) -> fx.Node:
        """Return the result of the packed table, in the type of the dense one."""
        graph, stored, dtype = self._graph, self._stored[table], table.weight.dtype
        packed = stored.plain
        method = METHODS[packed.method]
        nodes = {key: graph.get_attr(f"{self._prefixes[table]}.{key}") for key in stored.arrays()}
        turn = nodes.pop(ROTATION, None)
        arguments = method.arguments(packed, list(nodes.values()))
        outside, leading = None, self._mapped(call.leading)
        if call.use == "rows":
            ids, outside = self._ids(call.leading[0], packed.num_embeddings)
            leading = (ids,)
        elif call.use == "bag":
            leading = _bag(graph, *leading)
        elif turn is not None:
            leading = (rotated(graph, leading[0], turn, dtype, is_hidden=True),)
        result = graph.call_function(method.operators(packed).uses[call.use], (*leading, *arguments))
        if call.use != "logits" and turn is not None:
            result = rotated(graph, result, turn, dtype)
        elif call.use != "logits" and dtype_name(dtype) != packed.row_type:  # logits have the type of hidden states
            result = graph.call_function(_ATEN.to.dtype, (result, dtype))
        if outside is not None:
            result = graph.call_function(_ATEN.masked_fill.Scalar, (result, outside, 0))
        result = self._shaped(result, call)
        bias = self._mapped(call.bias)
        return result if bias is None else graph.call_function(_ATEN.add.Tensor, (result, bias))

    def _mapped(self, arguments: Any) -> Any:
        return fx.node.map_arg(arguments, self._copies.__getitem__)

    def _ids(self, ids: Ids, rows: int) -> tuple[fx.Node, fx.Node | None]:
        """Return ids from 0 to n - 1, and a mask [..., 1] of the ids that return zeros, or None."""
        graph, node = self._graph, self._copies[ids.node]
        if ids.drops_last:
            node = graph.call_function(_ATEN.squeeze.dim, (node, -1))
        if ids.sizes is not None:
            resize = _ATEN.view.default if ids.is_view else _ATEN.expand.default
            node = graph.call_function(resize, (node, self._mapped(list(ids.sizes))))
        if ids.outside == "refused":
            return node, None
        below = graph.call_function(_ATEN.lt.Scalar, (node, 0))
        if ids.outside == "from the end":
            shifted_ids = graph.call_function(_ATEN.add.Scalar, (node, rows))
            return graph.call_function(_ATEN.where.self, (below, shifted_ids, node)), None
        above = graph.call_function(_ATEN.ge.Scalar, (node, rows))
        outside = graph.call_function(_ATEN.logical_or.default, (below, above))
        inside = graph.call_function(_ATEN.masked_fill.Scalar, (node, outside, 0))
        return inside, graph.call_function(_ATEN.unsqueeze.default, (outside, -1))

    def _shaped(self, rows: fx.Node, call: Call) -> fx.Node:
        """Reshape rows [*ids, d] so that the axes of the constant surround those of the ids."""
        before, behind = rows_shape(call, self._used.constants)
        if call.use != "rows" or not (before or behind):
            return rows
        graph, rank = self._graph, call.rank or 0
        rows = graph.call_function(_ATEN.unflatten.int, (rows, -1, [*before, *behind]))
        if not before:
            return rows
        moved = [*range(rank, rank + len(before))]
        return graph.call_function(_ATEN.movedim.intlist, (rows, moved, [*range(len(before))]))


def _bag(
    graph: fx.Graph, ids: fx.Node, offsets: fx.Node, weights: fx.Node | None, mode: str, has_last: bool
) -> tuple[Any, ...]:
    """Return the arguments of a bag, with the number of ids as the last offset."""
    if not has_last:
        count = graph.call_function(_ATEN.sym_size.int, (ids, 0))
        last = graph.call_function(_ATEN.new_full.default, (offsets, [1], count))
        offsets = graph.call_function(_ATEN.cat.default, ([offsets, last],))
    return ids, offsets, weights, mode
