"""Tables of a file, with their uses in it."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from edge_embed.bench.c_table import kernel_of
from edge_embed.bench.grid import MeasuredTable
from edge_embed.bench.tflite_tables import TfliteTables
from edge_embed.bench.uses import USES, Bag, BenchUse, TopK, check_use
from edge_embed.errors import BadInputError, located
from edge_embed.exporters.onnx.bag import MODES
from edge_embed.inspection.inspect import is_tflite_file
from edge_embed.inspection.onnx_tables import OnnxTable, tables_of_nodes
from edge_embed.packed.file import load_tables
from edge_embed.packed.packed_form import METHODS, PackedTable, TableShape
from edge_embed.validation.exported_file import ExportedModel


def subjects_of(path: Path, methods: tuple[str, ...], uses: tuple[BenchUse, ...]) -> list[MeasuredTable]:
    """Return the tables of an exported ``.onnx`` or ``.tflite`` model, or of a packed ``.safetensors`` file.

    Args:
        path: path of the file.
        methods: requested methods of the tables.
        uses: requested uses. A model has its own uses, modes and k, and ``kernel``; a packed file has all of these.

    Raises:
        BadInputError: if the file is damaged or neither of these, or has no such table.
    """
    names = dict.fromkeys(use.name for use in uses)
    if path.suffix.lower() == ".safetensors":
        found = _of_packed(path, uses)
    else:
        found = _of_tflite(path) if is_tflite_file(path) else _of_model(path)
    wanted = []
    for subject in found:
        chosen = tuple(use for use in subject.uses if use.name in names)
        if chosen and subject.method in methods:
            wanted.append(replace(subject, uses=chosen))
    if not wanted:
        asked = f"{' or '.join(methods)} with a use of {' or '.join(names)}"
        raise BadInputError(f"{path}: expected a table of {asked}, got none; `edge-embed inspect` lists the tables")
    return wanted


def _of_packed(path: Path, uses: tuple[BenchUse, ...]) -> list[MeasuredTable]:
    found = []
    for name, table in load_tables(path).items():
        with located(f"{path}: table {name!r:.80}"):
            for use in uses:
                check_use(use, table.num_embeddings)
        found.append(
            MeasuredTable(name, table.method, partial(_same, table), _possible(uses, table.method, table.shape))
        )
    return found


def _same(table: PackedTable) -> PackedTable:
    return table


def _of_tflite(path: Path) -> list[MeasuredTable]:
    tables = TfliteTables(path)
    return [
        MeasuredTable(
            name, entry.method, partial(tables.packed, name), (*tables.uses(name), USES["kernel"]), None,
            tables.layouts[name],
        )
        for name, entry in tables.entries.items()
    ]  # fmt: skip


def _of_model(path: Path) -> list[MeasuredTable]:
    exported = ExportedModel(path)
    found = []
    with located(str(path)):
        for name, table in tables_of_nodes(exported.nodes, exported.weights).items():
            nodes = exported.nodes_of(list(table.initializers.values()))
            uses = dict.fromkeys(map(_use, nodes))  # two lookups of one table are measured once
            limit = max((limit for _, limit in table.nodes if limit is not None), default=None)
            make = partial(_packed, exported, table)
            found.append(
                MeasuredTable(
                    name, table.method, make, _possible((*uses, USES["kernel"]), table.method, table.shape), limit
                )
            )
    return found


def _possible(uses: tuple[BenchUse, ...], method: str, shape: TableShape | None) -> tuple[BenchUse, ...]:
    """Return the uses, without the call of a kernel if no kernel computes rows of the table."""
    has_kernel = shape is None or kernel_of(method, shape) is not None
    return tuple(use for use in uses if has_kernel or use.name != "kernel")


def _use(node: NodeProto) -> BenchUse:
    attributes = {item.name: item.i for item in node.attribute}
    if node.op_type.endswith("EmbeddingBag"):
        return Bag(MODES[attributes["mode"]])
    if node.op_type.endswith("TopK"):
        return TopK(attributes["k"])
    return USES["logits" if node.op_type.endswith("Logits") else "rows"]


def _packed(exported: ExportedModel, table: OnnxTable) -> PackedTable:
    if table.shape is None:
        raise BadInputError(f"table {table.name!r:.80}: expected initializers for all tensors; export the model again")
    tensors: dict[str, NDArray[Any]] = {}
    for tensor, spec in table.shape.tensor_specs().items():
        stored = b"".join(exported.blocks(table.initializers[tensor]))
        tensors[tensor] = np.frombuffer(stored, np.dtype(spec.dtype).newbyteorder("<")).reshape(spec.shape)
    with located(f"table {table.name!r:.80}"):
        return METHODS[table.method].from_tensors(tensors, table.shape.attributes(), table.padding_idx)
