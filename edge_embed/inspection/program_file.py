"""Saved program, or a folder read as one: its tables as the graph uses them, without packing them."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, fx

from edge_embed.errors import BadInputError, located
from edge_embed.importers.transformers_folder import read_transformers
from edge_embed.inspection.report import DenseInfo, FileReport, Kind, PortInfo, TableInfo, table_info
from edge_embed.inspection.table_forms import Forms, TableForm
from edge_embed.lowering.dense_tables import UsedTable, UsedTables, obstacle
from edge_embed.lowering.output_layers import output_layers
from edge_embed.lowering.table_names import owner_of
from edge_embed.methods import Collected, Parts
from edge_embed.ops.operators import LEADING, TableOperators
from edge_embed.program.program import Program, dtype_name
from edge_embed.program.reader import read_program

_NO_TABLE = (
    "no compressed table: compress one (edge-embed compress), or train a DPQEmbedding, ANTEmbedding or TTEmbedding"
)
_MALFORMED = (TypeError, ValueError, AttributeError, IndexError, KeyError, OverflowError)


@dataclass(frozen=True)
class _Reader:
    """Reader of an operator's table: its method, its form, and the number of arguments before the table."""

    method: str
    operators: TableOperators
    form: TableForm
    leading: int


_READERS: Collected[Any, _Reader] = Collected(
    lambda: (
        (operator, _Reader(method, operators, form, len(LEADING[use])))
        for method, forms in Parts[Forms]("inspection").items()
        for operators, form in forms.items()
        for use, operator in operators.uses.items()
    )
)


def inspect_program(path: Path, verify: bool) -> FileReport:
    """Report a ``model.pt`` or ``.pt2``. Reading it always compares the CRC-32 of every member.

    Raises:
        BadInputError: It is damaged, or holds something that cannot be read safely.
    """
    return report_of(read_program(path), path, "program", path.stat().st_size, verify)


def inspect_transformers(folder: Path, verify: bool) -> FileReport:
    """Report the folder of a transformers model, which is traced. It has no checksums, so nothing is verified.

    Raises:
        BadInputError: It is damaged, or no model that can be a program.
        EdgeEmbedError: The package transformers is missing.
    """
    with located(str(folder)):
        program = read_transformers(folder)
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    report = report_of(program, folder, "transformers", size, verify)
    weights = sum(weight.nbytes for weight in program.module.buffers())
    part = min(1, size / weights)  # weights in the folder may take fewer bytes than in float32
    dense = [replace(table, stored_bytes=int(table.stored_bytes * part)) for table in report.dense]
    return replace(report, dense=dense)


def report_of(program: Program, path: Path, kind: Kind, size: int, verify: bool) -> FileReport:
    """Report a program that was read from a file.

    Args:
        program: the program.
        path: path as the user gave it.
        kind: kind of the file.
        size: bytes of the file.
        verify: whether verification was requested.

    Raises:
        BadInputError: its tables are invalid.
    """
    try:
        tables, (dense, left) = _tables(program), _dense(program)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error
    except _MALFORMED as error:
        raise BadInputError(f"{path}: damaged: its tables are invalid ({error}); save it again") from error
    return FileReport(
        path=str(path),
        kind=kind,
        file_bytes=size,
        total_bytes=size,
        verified=verify,
        tables=tables,
        dense=dense,
        inputs=[PortInfo(port.name, dtype_name(port.dtype), list(port.shape)) for port in program.inputs],
        outputs=[PortInfo(name, "", None) for name in program.output_names],
        vocabulary_size=None if program.vocabulary is None else len(program.vocabulary),
        metadata={str(key): str(value) for key, value in program.metadata.items()},
        source=program.facts,
        notes=[*([] if tables else [_NO_TABLE]), *left],
    )


def _tables(program: Program) -> list[TableInfo]:
    """Return one entry per table; several calls over the same weights are one."""
    found: dict[tuple[str, str], TableInfo] = {}
    taken: set[str] = set()
    for node in program.module.graph.nodes:
        if node.target not in _READERS:
            continue
        reader = _READERS[node.target]
        arguments = node.args[reader.leading :]
        identity = (reader.operators.name, repr(fx.node.map_arg(arguments, _target)))
        if identity in found:
            continue
        nodes: list[fx.Node] = []
        fx.node.map_arg(arguments, nodes.append)
        name = unique = owner_of(str(nodes[0].target))
        while unique in taken:  # same weights, other padding row: numbered as by lowering
            unique = f"{name}_{len(taken)}"
        taken.add(unique)
        weights = {str(weight.target): _weight(program, weight) for weight in nodes}
        stored = sum(tensor.nbytes for tensor in weights.values())  # keys and values may be tied
        with located(f"table {unique!r}"):
            shape, padding_idx = reader.form.read(*fx.node.map_arg(arguments, lambda weight: _weight(program, weight)))
        found[identity] = table_info(unique, reader.method, reader.form.state, shape, padding_idx, stored, "matches")
    return list(found.values())


def _dense(program: Program) -> tuple[list[DenseInfo], list[str]]:
    """Return tables and output layers, with notes on the latter."""
    used = UsedTables(program)
    outputs = list(output_layers(used))
    dense = [
        DenseInfo(table.name, *table.size, dtype_name(table.weight.dtype), used.stored_bytes(table))
        for table in used.tables
        if table.looks_up or table in outputs
    ]
    return dense, [_left(used, table) for table in outputs]


def _left(used: UsedTables, table: UsedTable) -> str:
    """Return the reason why compress leaves an output layer."""
    what = f"{table.name} is an output layer without lookups"
    if reason := obstacle(used, table):
        return f"{what}, and cannot be compressed: {reason}"
    return f"{what}: compress leaves it unless it is named (--module {table.name})"


def _weight(program: Program, node: fx.Node) -> Tensor:
    return program.module.weight(str(node.target))


def _target(weight: fx.Node) -> str:
    return str(weight.target)
