"""Rewrites a program so that every compressed embedding is one operator over packed tensors."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, fx

from edge_embed.errors import BadInputError
from edge_embed.lowering.dpq import DPQ
from edge_embed.lowering.method import Method
from edge_embed.packed.form import Packed
from edge_embed.program.program import Program, ProgramModule

METHODS: tuple[Method, ...] = (DPQ,)
_METHOD_OF = {operator: method for method in METHODS for operator in method.packers}
_DENSE = {torch.ops.aten.embedding.default, torch.ops.aten.embedding_bag.padding_idx}

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class TableReport:
    """What became of one embedding of the model.

    Attributes:
        name: where it sits in the user's model, such as ``encoder.embedding``.
        method: ``dpq``, ..., or ``dense``.
        lowered: whether it is packed now.
        reason: why it was left, empty if it was not.
        uses: how many times the model looks ids up in it.
    """

    name: str
    method: str
    num_embeddings: int
    embedding_dim: int
    lowered: bool
    reason: str
    uses: int = 1


@dataclass(frozen=True)
class LoweredProgram:
    """A program over packed tables.

    Attributes:
        program: the same inputs and outputs; its graph calls the packed operators.
        tables: packed forms by name.
        reports: one entry per embedding of the model, lowered or left.
    """

    program: Program
    tables: dict[str, Packed]
    reports: tuple[TableReport, ...]


def lower_program(program: Program, progress: Progress = lambda name, done, total: None) -> LoweredProgram:
    """Pack every compressed embedding; the given program stays as it is.

    Args:
        program: in the training form, or lowered already.
        progress: called with (table name, rows done, rows in all).

    Raises:
        BadInputError: if a table holds what the packed form cannot: NaN, other value types, codes out of range.
    """
    return _Lowering(program, progress).run()


class _Lowering:
    def __init__(self, program: Program, progress: Progress) -> None:
        self._source, self._progress = program, progress
        self._graph = fx.Graph()
        outputs = self._graph.graph_copy(program.module.graph, {})
        self._graph.output(outputs)
        self._weights: dict[str, Tensor] = {}
        self._tables: dict[tuple[Any, ...], str] = {}
        self._packed: dict[str, Packed] = {}
        self._reports: dict[str, TableReport] = {}

    def run(self) -> LoweredProgram:
        for node in list(self._graph.nodes):
            if node.target in _METHOD_OF:
                self._lower(node, _METHOD_OF[node.target])
            elif node.target in _DENSE:
                self._leave(node)
        self._graph.eliminate_dead_code()
        kept = {str(node.target) for node in self._graph.nodes if node.op == "get_attr"}
        weights = {
            name: self._weights[name] if name in self._weights else self._source.module.weight(name)
            for name in sorted(kept)
        }
        lowered = replace(self._source, module=ProgramModule(self._graph, weights))
        return LoweredProgram(lowered, self._packed, tuple(self._reports.values()))

    def _lower(self, node: fx.Node, method: Method) -> None:
        ids, *arguments = node.args
        identity = tuple(item.target if isinstance(item, fx.Node) else item for item in arguments)
        if identity not in self._tables:
            self._tables[identity] = self._pack(node, method, arguments)
        name = self._tables[identity]
        packed = self._packed[name]
        with self._graph.inserting_before(node):
            tensors = [self._graph.get_attr(f"{name}.{tensor}") for tensor in packed.tensors()]
            call = self._graph.call_function(method.operator, (ids, *tensors, *method.scalars(packed)))
        node.replace_all_uses_with(call)
        self._graph.erase_node(node)
        self._count(TableReport(name, method.name, packed.num_embeddings, packed.embedding_dim, True, ""))

    def _pack(self, node: fx.Node, method: Method, arguments: list[Any]) -> str:
        name = self._table_name(arguments[0])
        values = [self._weight(item) if isinstance(item, fx.Node) else item for item in arguments]
        total = values[0].shape[0]

        def on_block(done: int) -> None:
            self._source.release()
            self._progress(name, done, total)

        try:
            packed = method.packers[node.target](values, on_block)
        except BadInputError as error:
            raise BadInputError(f"table {name}: {error}") from error
        self._packed[name] = packed
        self._weights |= {f"{name}.{key}": torch.from_numpy(array) for key, array in packed.tensors().items()}
        return name

    def _leave(self, node: fx.Node) -> None:
        weight = node.args[0]
        if not isinstance(weight, fx.Node) or weight.op != "get_attr":
            return
        rows, columns = self._weight(weight).shape
        reason = "a dense table: train it as DPQEmbedding (`edge-embed compress` is planned)"
        self._count(TableReport(_owner(weight), "dense", rows, columns, False, reason))

    def _count(self, report: TableReport) -> None:
        known = self._reports.get(report.name)
        self._reports[report.name] = report if known is None else replace(known, uses=known.uses + 1)

    def _table_name(self, weight: fx.Node) -> str:
        name = unique = _owner(weight)
        while unique in self._packed:  # the same weights with another padding row are another table
            unique = f"{name}_{len(self._packed)}"
        return unique

    def _weight(self, node: fx.Node) -> Tensor:
        return self._source.module.weight(str(node.target))


def _owner(weight: fx.Node) -> str:
    """``encoder.embedding`` for the weight ``encoder.embedding.query``; ``embedding`` for a bare layer."""
    return str(weight.target).rpartition(".")[0] or "embedding"
