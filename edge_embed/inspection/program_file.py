"""A saved program, or a folder read as one: its tables as the graph uses them, without packing them."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx

from edge_embed.errors import BadInputError
from edge_embed.importers.transformers_folder import read_transformers
from edge_embed.inspection.report import DenseInfo, FileReport, Kind, PortInfo, State, TableInfo, table_info
from edge_embed.lowering.names import owner_of
from edge_embed.lowering.output_layers import output_layers
from edge_embed.lowering.tables import UsedTable, UsedTables, obstacle
from edge_embed.ops import ant, ant_mixture, dpq, tt
from edge_embed.ops.operators import LEADING, TableOperators
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.ant_shape import ANTShape
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.form import TableShape
from edge_embed.packed.manifest import located
from edge_embed.packed.tt import PackedTT
from edge_embed.packed.tt_shape import TTShape
from edge_embed.program.program import Program, dtype_name
from edge_embed.program.reader import read_program

_NO_TABLE = (
    "no compressed table: compress one (edge-embed compress), or train it as DPQEmbedding, ANTEmbedding or TTEmbedding"
)
_MALFORMED = (TypeError, ValueError, AttributeError, IndexError, KeyError, OverflowError)


Sizes = tuple[TableShape, int | None]


def _dpq_trainable(query: Tensor, key: Tensor, value: Tensor, *rest: Any) -> Sizes:
    groups, num_codes, width = value.shape
    num_groups = query.shape[1] // key.shape[2]
    return _dpq_shape((query.shape[0], num_groups * width), groups, num_codes, num_groups, _value_type(value)), rest[-1]


def _dpq_frozen(
    codes: Tensor, value: Tensor, value_scales: Tensor | None, num_groups: int, padding_idx: int | None
) -> tuple[DPQShape, int | None]:
    groups, num_codes, width = value.shape
    value_type = "int8" if value.dtype == torch.int8 else _value_type(value)
    return _dpq_shape((codes.shape[0], width * num_groups), groups, num_codes, num_groups, value_type), padding_idx


def _dpq_scaled(
    codes: Tensor,
    value: Tensor,
    value_scales: Tensor | None,
    row_scale_codes: Tensor | None,
    row_scales: Tensor | None,
    num_groups: int,
    unused_columns: int,
    padding_idx: int | None,
) -> Sizes:
    shape, padding_idx = _dpq_frozen(codes, value, value_scales, num_groups, padding_idx)
    num_row_scales = 0 if row_scales is None else len(row_scales)
    dim = shape.embedding_dim - unused_columns
    cut = replace(shape, embedding_dim=dim, num_row_scales=num_row_scales, unused_columns=unused_columns)
    return cut, padding_idx


def _dpq_shape(size: tuple[int, int], stored: int, num_codes: int, num_groups: int, value_type: str) -> DPQShape:
    if stored not in (1, num_groups):
        raise BadInputError(f"got {stored} value tables, expected {num_groups}, or 1 when they are shared")
    return DPQShape(int(size[0]), int(size[1]), num_codes, num_groups, stored != num_groups, value_type)


def _ant_trainable(transform: Tensor, anchors: Tensor, padding_idx: int | None) -> Sizes:
    """What a table would be if it were packed now: training goes on to change which entries are zero."""
    (rows, num_anchors), dim = transform.shape, anchors.shape[1]
    padding = 0 if padding_idx is None else _positive(transform[padding_idx])
    kept = _positive(transform) - padding
    return ANTShape(rows, dim, num_anchors, kept, _value_type(transform), _value_type(anchors)), padding_idx


def _ant_mixture(
    transform: Tensor, anchors: Tensor, set_sizes: list[int], mixing: str, padding_idx: int | None
) -> Sizes:
    return _ant_trainable(*ant_mixture.linear_form(transform, anchors, set_sizes, mixing), padding_idx)


def _ant_frozen(
    row_offsets: Tensor,
    anchor_ids: Tensor,
    weights: Tensor,
    weight_scale: Tensor,
    anchors: Tensor,
    padding_idx: int | None,
) -> Sizes:
    (num_anchors, dim), types = anchors.shape, (dtype_name(weights.dtype), _value_type(anchors))
    return ANTShape(row_offsets.shape[0] - 1, dim, num_anchors, weights.shape[0], *types), padding_idx


def _tt(cores: list[Tensor], num_embeddings: int, padding_idx: int | None) -> tuple[TTShape, int | None]:
    rows, befores, columns, afters = zip(*(core.shape for core in cores), strict=True)
    return TTShape(num_embeddings, rows, columns, (befores[0], *afters), _value_type(cores[0])), padding_idx


def _tt_ordered(cores: list[Tensor], row_order: Tensor, num_embeddings: int, padding_idx: int | None) -> Sizes:
    if row_order.shape != (num_embeddings,):
        raise BadInputError(f"row_order: got {list(row_order.shape)}, expected [{num_embeddings}]")
    shape, padding_idx = _tt(cores, num_embeddings, padding_idx)
    return replace(shape, has_row_order=True), padding_idx


def _positive(transform: Tensor) -> int:
    return int((transform > 0).sum())


def _value_type(stored: Tensor) -> str:
    """Type at inference; whatever is not float16 by then has to be made float32."""
    return "float16" if stored.dtype == torch.float16 else "float32"


# Each form of a table: its method, its state, and its sizes and padding row from what its operators get.
_FORMS: dict[TableOperators, tuple[str, State, Callable[..., Sizes]]] = {
    ant.TRAINABLE: (PackedANT.method, "trainable", _ant_trainable),
    ant_mixture.MIXTURE: (PackedANT.method, "trainable", _ant_mixture),
    ant.FROZEN: (PackedANT.method, "frozen", _ant_frozen),
    dpq.TRAINABLE: (PackedDPQ.method, "trainable", _dpq_trainable),
    dpq.FROZEN: (PackedDPQ.method, "frozen", _dpq_frozen),
    dpq.SCALED: (PackedDPQ.method, "frozen", _dpq_scaled),
    tt.TT: (PackedTT.method, "stored", _tt),
    tt.ORDERED: (PackedTT.method, "stored", _tt_ordered),
}
# Each operator: its form, and how many arguments come before the table.
_READERS = {operator: (form, len(LEADING[use])) for form in _FORMS for use, operator in form.uses.items()}


def inspect_program(path: Path, verify: bool) -> FileReport:
    """Report a ``model.pt`` or ``.pt2``. Reading it compares the CRC-32 of every member, asked or not.

    Raises:
        BadInputError: It is damaged, or holds what cannot be read safely.
    """
    return report_of(read_program(path), path, "program", path.stat().st_size, verify)


def inspect_transformers(folder: Path, verify: bool) -> FileReport:
    """Report the folder of a transformers model, which is traced for that. It has no checksums: nothing is verified.

    Raises:
        BadInputError: It is damaged, or no model that can be a program.
        EdgeEmbedError: The package transformers is missing.
    """
    with located(str(folder)):
        program = read_transformers(folder)
    size = sum(file.stat().st_size for file in folder.glob("*.safetensors"))
    report = report_of(program, folder, "transformers", size, verify)
    weights = sum(weight.nbytes for weight in program.module.buffers())
    part = min(1, size / weights)  # in the folder weights may take less than as float32
    dense = [replace(table, stored_bytes=int(table.stored_bytes * part)) for table in report.dense]
    return replace(report, dense=dense)


def report_of(program: Program, path: Path, kind: Kind, size: int, verify: bool) -> FileReport:
    """Report a program that was read from a file.

    Args:
        program: what was read.
        path: as the user gave it.
        kind: of the file.
        size: its bytes.
        verify: whether hashes were to be checked.

    Raises:
        BadInputError: its tables make no sense.
    """
    try:
        tables, (dense, left) = _tables(program), _dense(program)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error
    except _MALFORMED as error:
        raise BadInputError(f"{path}: damaged: its tables make no sense ({error}); save it again") from error
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
    """One entry per table; several calls over the same weights are one."""
    found: dict[tuple[str, str], TableInfo] = {}
    taken: set[str] = set()
    for node in program.module.graph.nodes:
        if node.target not in _READERS:
            continue
        form, leading = _READERS[node.target]
        arguments = node.args[leading:]
        identity = (form.name, repr(fx.node.map_arg(arguments, _target)))
        if identity in found:
            continue
        nodes: list[fx.Node] = []
        fx.node.map_arg(arguments, nodes.append)
        name = unique = owner_of(str(nodes[0].target))
        while unique in taken:  # the same weights with another padding row, numbered as lowering does
            unique = f"{name}_{len(taken)}"
        taken.add(unique)
        weights = {str(weight.target): _weight(program, weight) for weight in nodes}
        stored = sum(tensor.nbytes for tensor in weights.values())  # keys and values may be tied
        method, state, read = _FORMS[form]
        with located(f"table {unique!r}"):
            shape, padding_idx = read(*fx.node.map_arg(arguments, lambda weight: _weight(program, weight)))
        found[identity] = table_info(unique, method, state, shape, padding_idx, stored, "matches")
    return list(found.values())


def _dense(program: Program) -> tuple[list[DenseInfo], list[str]]:
    """Tables and output layers, with notes of the latter."""
    used = UsedTables(program)
    outputs = list(output_layers(used))
    dense = [
        DenseInfo(table.name, *table.size, dtype_name(table.weight.dtype), used.stored_bytes(table))
        for table in used.tables
        if table.looks_up or table in outputs
    ]
    return dense, [_left(used, table) for table in outputs]


def _left(used: UsedTables, table: UsedTable) -> str:
    """Why compress leaves an output layer."""
    what = f"{table.name} is an output layer of which no rows are looked up"
    if reason := obstacle(used, table):
        return f"{what}, and cannot be compressed: {reason}"
    return f"{what}: compress leaves it unless it is named (--module {table.name})"


def _weight(program: Program, node: fx.Node) -> Tensor:
    return program.module.weight(str(node.target))


def _target(weight: fx.Node) -> str:
    return str(weight.target)
