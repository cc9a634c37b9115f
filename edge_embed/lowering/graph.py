"""Rewriting of a program, after which every compressed embedding is one operator over packed tensors."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx

from edge_embed.errors import BadInputError
from edge_embed.fitting.found_table import too_small
from edge_embed.lowering.dense_tables import UsedTable, UsedTables
from edge_embed.lowering.id_check import IdCheck
from edge_embed.lowering.method import LoweringMethod
from edge_embed.lowering.table_names import owner_of
from edge_embed.methods import Collected, Parts
from edge_embed.ops.entmax import OPERATORS as ACTIVATIONS
from edge_embed.ops.operators import LEADING, TableOperators
from edge_embed.packed.packed_form import PackedTable, Use, settings_of
from edge_embed.packed.stored_names import stored_name, stored_names
from edge_embed.packed.stored_names import table_of as table_of_tensor
from edge_embed.packed.topk import check_k
from edge_embed.program.program import Program, ProgramModule
from edge_embed.report.results.table_record import TableRecord

METHODS: Parts[LoweringMethod] = Parts("lowering")


@dataclass(frozen=True)
class Call:
    """Meaning of an operator: the method, the form of its table, and the use."""

    method: LoweringMethod
    form: TableOperators
    use: Use

    @property
    def leading(self) -> int:
        """Number of arguments before those of the table."""
        return len(LEADING[self.use])


CALLS: Collected[Any, Call] = Collected(
    lambda: (
        (operator, Call(method, form, use))
        for method in METHODS.values()
        for form in method.packers
        for use, operator in form.uses.items()
    )
)

Progress = Callable[[str, int, int], None]


def table_of(node: fx.Node) -> str:
    """Return the name of the table of a lowered call: its tensors are ``<table>.<tensor>``."""
    weights: list[fx.Node] = []
    fx.node.map_arg(node.args[CALLS[node.target].leading :], weights.append)
    return table_of_tensor(str(weights[0].target))


@dataclass(frozen=True, repr=False)
class LoweredProgram:
    """Program over packed tables.

    Attributes:
        program: program with the same inputs and outputs, whose graph calls the packed operators.
        tables: packed forms by name.
        reports: one entry for each embedding of the model, lowered or left.
        id_check: check of ids that its exported files have around lookups and bags, or None.
    """

    program: Program
    tables: dict[str, PackedTable]
    reports: tuple[TableRecord, ...]
    id_check: IdCheck | None = None

    def __repr__(self) -> str:
        """Return one line for each table, without its numbers."""
        lines = (f"{report.name}: {self.tables.get(report.name, report.reason)}" for report in self.reports)
        return "\n".join(("LoweredProgram", *lines))

    def stored_names(self) -> set[str]:
        """Return the names of the packed tensors of all tables."""
        return {stored_name(name, tensor) for name, packed in self.tables.items() for tensor in packed.tensors()}

    @property
    def num_activations(self) -> int:
        """Number of sparse activations that its exported files compute by operators of their own."""
        operators = set(ACTIVATIONS.values())
        return sum(node.target in operators for node in self.program.module.graph.nodes)

    def zero_tables(self) -> list[str]:
        """Return the names of the tables whose rows are all zero."""
        return [report.name for report in self.reports if report.is_zero]


def lower_program(program: Program, progress: Progress = lambda name, done, total: None) -> LoweredProgram:
    """Pack every compressed embedding; the given program is not changed.

    Args:
        program: program in the training form, or lowered already.
        progress: called with (table name, rows done, total rows).

    Raises:
        BadInputError: if the packed form cannot hold a table: NaN, other dtypes of values, codes out of range.
    """
    return _Lowering(program, progress).run()


class _Lowering:
    def __init__(self, program: Program, progress: Progress) -> None:
        self._source, self._progress = program, progress
        self._graph = fx.Graph()
        copies: dict[fx.Node, fx.Node] = {}
        outputs = self._graph.graph_copy(program.module.graph, copies)
        self._graph.output(outputs)
        tables = (table for table in UsedTables(program).tables if table.looks_up)
        self._dense = {
            copies[call.node]: table for table in tables for call in table.calls if call.use in ("rows", "bag")
        }
        self._weights: dict[str, Tensor] = {}
        self._tables: dict[tuple[str, str], str] = {}
        self._packed: dict[str, PackedTable] = {}
        self._reports: dict[str, TableRecord] = {}

    def run(self) -> LoweredProgram:
        for node in list(self._graph.nodes):
            if node.target in CALLS:
                self._lower(node, CALLS[node.target])
            elif node in self._dense:
                self._leave(self._dense[node])
        self._graph.eliminate_dead_code()
        kept = {str(node.target) for node in self._graph.nodes if node.op == "get_attr"}
        weights = {
            name: self._weights[name] if name in self._weights else self._source.module.weight(name)
            for name in sorted(kept)
        }
        lowered = replace(self._source, module=ProgramModule(self._graph, weights))
        return LoweredProgram(lowered, self._packed, tuple(self._reports.values()))

    def _lower(self, node: fx.Node, call: Call) -> None:
        leading, arguments = node.args[: call.leading], node.args[call.leading :]
        key = (call.form.name, repr(fx.node.map_arg(arguments, _target)))  # one table for all its uses
        if key not in self._tables:
            self._tables[key] = self._pack(call, arguments)
        name = self._tables[key]
        packed = self._packed[name]
        if call.use == "topk":
            check_k(leading[-1], packed.num_embeddings)
        with self._graph.inserting_before(node):
            tensors = [self._graph.get_attr(stored) for stored in stored_names(name, packed.tensors()).values()]
            table = call.method.arguments(packed, tensors)
            lowered = self._graph.call_function(call.method.operators(packed).uses[call.use], (*leading, *table))
        node.replace_all_uses_with(lowered)
        self._graph.erase_node(node)
        self._count(_record(name, packed))

    def _pack(self, call: Call, arguments: tuple[Any, ...]) -> str:
        values: Any = fx.node.map_arg(arguments, self._weight)
        name = self._table_name(arguments)
        total = call.form.size(*values)[0]

        def on_block(done: int) -> None:
            self._source.release()
            self._progress(name, done, total)

        try:
            packed = call.method.packers[call.form](list(values), on_block)
        except BadInputError as error:
            raise BadInputError(f"table {name}: {error}") from error
        self._packed[name] = packed
        self._weights |= {stored_name(name, key): torch.from_numpy(array) for key, array in packed.tensors().items()}
        return name

    def _leave(self, table: UsedTable) -> None:
        small = too_small(table.name, table.weight, self._source.numbers)
        remedy = "compress it (`edge-embed compress`), or train it as DPQEmbedding or another layer of edge-embed"
        reason = f"a dense table: {small or remedy}"
        self._count(TableRecord(table.name, "dense", *table.size, False, reason))

    def _count(self, report: TableRecord) -> None:
        known = self._reports.get(report.name)
        self._reports[report.name] = report if known is None else replace(known, uses=known.uses + 1)

    def _table_name(self, arguments: tuple[Any, ...]) -> str:
        weights: list[fx.Node] = []
        fx.node.map_arg(arguments, weights.append)
        name = unique = owner_of(_target(weights[0])).replace("/", ".")  # not allowed in names of packed tables
        while unique in self._packed:  # the same weights with another padding row are another table
            unique = f"{name}_{len(self._packed)}"
        return unique

    def _weight(self, node: fx.Node) -> Tensor:
        return self._source.module.weight(str(node.target))


def _target(weight: fx.Node) -> str:
    return str(weight.target)


def _record(name: str, packed: PackedTable) -> TableRecord:
    return TableRecord(
        name,
        packed.method,
        packed.num_embeddings,
        packed.embedding_dim,
        lowered=True,
        reason="",
        packed_bytes=packed.nbytes,
        compression_ratio=packed.compression_ratio,
        is_zero=packed.is_zero,
        settings=settings_of(packed),
    )
