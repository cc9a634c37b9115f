"""A saved program: its tables as the graph uses them, trainable or frozen, without packing them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, fx

from edge_embed.errors import BadInputError
from edge_embed.inspection.report import DenseInfo, FileReport, PortInfo, State, TableInfo, table_info
from edge_embed.ops import dpq
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.form import TableShape
from edge_embed.packed.manifest import located
from edge_embed.program.program import Program
from edge_embed.program.reader import read_program

_DENSE = {torch.ops.aten.embedding.default, torch.ops.aten.embedding_bag.padding_idx}
_MALFORMED = (TypeError, ValueError, AttributeError, IndexError, KeyError, OverflowError)


def _trainable_shape(arguments: list[Any]) -> tuple[TableShape, int | None]:
    query, key, *_, padding_idx = arguments
    groups, num_codes, width = key.shape
    return _dpq_shape(query.shape, groups, num_codes, query.shape[1] // width), padding_idx


def _frozen_shape(arguments: list[Any]) -> tuple[TableShape, int | None]:
    codes, value, num_groups, padding_idx = arguments
    groups, num_codes, width = value.shape
    return _dpq_shape((codes.shape[0], width * num_groups), groups, num_codes, num_groups), padding_idx


def _dpq_shape(size: tuple[int, int] | torch.Size, stored: int, num_codes: int, num_groups: int) -> DPQShape:
    if stored not in (1, num_groups):
        raise BadInputError(f"got {stored} value tables, expected {num_groups}, or 1 when they are shared")
    return DPQShape(int(size[0]), int(size[1]), num_codes, num_groups, stored != num_groups)


# What follows ids in a call of each operator -> sizes and padding row.
_READERS: dict[Any, tuple[str, State, Callable[[list[Any]], tuple[TableShape, int | None]]]] = {
    dpq.TRAINABLE: (PackedDPQ.method, "trainable", _trainable_shape),
    dpq.FROZEN: (PackedDPQ.method, "frozen", _frozen_shape),
}


def inspect_program(path: Path, verify: bool) -> FileReport:
    """Report a ``model.pt`` or ``.pt2``. Reading it compares the CRC-32 of every member, asked or not.

    Raises:
        BadInputError: It is damaged, or holds what cannot be read safely.
    """
    program = read_program(path)
    try:
        tables, dense = _tables(program), _dense(program)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error
    except _MALFORMED as error:
        raise BadInputError(f"{path}: damaged: its tables make no sense ({error}); save it again") from error
    size = path.stat().st_size
    return FileReport(
        path=str(path),
        kind="program",
        file_bytes=size,
        total_bytes=size,
        verified=verify,
        tables=tables,
        dense=dense,
        inputs=[PortInfo(port.name, _dtype(port.dtype), list(port.shape)) for port in program.inputs],
        outputs=[PortInfo(name, "", None) for name in program.output_names],
        vocabulary_size=None if program.vocabulary is None else len(program.vocabulary),
        metadata={str(key): str(value) for key, value in program.metadata.items()},
        notes=[] if tables else ["no compressed table: train one as DPQEmbedding (edge-embed compress is planned)"],
    )


def _tables(program: Program) -> list[TableInfo]:
    """One entry per table; several calls over the same weights are one."""
    found: dict[tuple[Any, ...], TableInfo] = {}
    taken: set[str] = set()
    for node in program.module.graph.nodes:
        if node.target not in _READERS:
            continue
        method, state, read = _READERS[node.target]
        arguments = list(node.args[1:])
        identity = tuple(item.target if isinstance(item, fx.Node) else item for item in arguments)
        if identity in found:
            continue
        name = unique = _owner(arguments[0])
        while unique in taken:  # the same weights with another padding row, numbered as lowering does
            unique = f"{name}_{len(taken)}"
        taken.add(unique)
        values = [_weight(program, item) if isinstance(item, fx.Node) else item for item in arguments]
        weights = {
            str(item.target): value for item, value in zip(arguments, values, strict=True) if isinstance(item, fx.Node)
        }
        stored = sum(tensor.nbytes for tensor in weights.values())  # vq has one weight as key and value
        with located(f"table {unique!r}"):
            shape, padding_idx = read(values)
        found[identity] = table_info(unique, method, state, shape, padding_idx, stored, "matches")
    return list(found.values())


def _dense(program: Program) -> list[DenseInfo]:
    found: dict[str, DenseInfo] = {}
    for node in program.module.graph.nodes:
        weight = node.args[0] if node.target in _DENSE else None
        if isinstance(weight, fx.Node) and weight.op == "get_attr":
            tensor, name = _weight(program, weight), _owner(weight)
            rows, columns = tensor.shape
            found[name] = DenseInfo(name, rows, columns, _dtype(tensor.dtype), tensor.nbytes)
    return list(found.values())


def _weight(program: Program, node: fx.Node) -> Tensor:
    return program.module.weight(str(node.target))


def _owner(weight: fx.Node) -> str:
    """``encoder.embedding`` for the weight ``encoder.embedding.query``; ``embedding`` for a bare layer."""
    return str(weight.target).rpartition(".")[0] or "embedding"


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
