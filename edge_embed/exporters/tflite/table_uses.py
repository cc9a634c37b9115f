"""Uses of a packed table in a TFLite graph, for any method: rows, bags, logits, top-k.

A table with a row order has an additional ``GATHER``: before the plain use, of the row of each id, or, in an output
layer, after it, of the logit of each id. The delegate can replace the plain use between. Its top-k would order equal
values by the lowest row, so the top-k follows that ``GATHER``.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import located
from edge_embed.exporters.tflite import bag, output_layers
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.id_check import CheckedIds
from edge_embed.exporters.tflite.manifest import manifest_line
from edge_embed.exporters.tflite.method import TfliteMethod
from edge_embed.exporters.tflite.stored_table import StoredTable
from edge_embed.lowering.id_check import IdCheck
from edge_embed.methods import Parts
from edge_embed.ops.operators import LEADING
from edge_embed.packed.manifest import TableEntry
from edge_embed.packed.packed_form import PackedTable, Use
from edge_embed.packed.stored_names import stored_name, table_of

METHODS: Parts[TfliteMethod] = Parts("tflite")


@dataclass(frozen=True)
class Layout:
    """The layout of a table in the file, and the bytes that it adds to the packed form."""

    name: str
    added_bytes: int


def choose_layouts(tables: Mapping[str, PackedTable], tflite_table: str) -> dict[str, Layout]:
    """Return the layout of every table.

    Raises:
        BadInputError: a table does not support the requested layout.
    """
    layouts = {}
    for name, packed in tables.items():
        method = METHODS[packed.method]
        with located(f"table {name}"):
            chosen = method.choose(packed, tflite_table)
        layouts[name] = Layout(chosen, method.table_bytes(packed, chosen))
    return layouts


def stored_hashes(name: str, packed: PackedTable, layout: str) -> Mapping[str, str]:
    """Return the SHA-256 of the stored tensors of a table in that layout, by name of the tensor."""
    graph = Graph()
    add_use(graph, "rows", name, packed, layout, [graph.input("ids", "int32", (-1,))])
    return graph.hashes


def read_tensors(
    contents: Mapping[str, NDArray[np.uint8]], name: str, entry: TableEntry, layout: str
) -> dict[str, NDArray[Any]]:
    """Return the tensors of a packed table from those of a file in that layout, without checks.

    Raises:
        KeyError, ValueError, IndexError: the file does not hold a table in that layout.
    """
    stored = StoredTable(contents, name)
    made = METHODS[entry.method].read(stored, entry.shape, layout)
    return {
        tensor: made[tensor] if tensor in made else stored.get(tensor, spec.dtype, tuple(spec.shape))
        for tensor, spec in entry.shape.tensor_specs().items()
    }


def layouts_json(hashes: Mapping[str, str], layouts: Mapping[str, Layout]) -> str:
    """Return the metadata text of layouts; hashes are those of the tensors of all tables, by name."""
    entries = {
        table: {
            "layout": layout.name,
            "sha256": {tensor: digest for tensor, digest in hashes.items() if table_of(tensor) == table},
        }
        for table, layout in layouts.items()
    }
    return json.dumps(entries, sort_keys=True)


def add_use(
    graph: Graph,
    use: Use,
    name: str,
    packed: PackedTable,
    layout: str,
    leading: Sequence[Any],
    id_check: IdCheck | None = None,
) -> tuple[tuple[Tensor, ...], str | None]:
    """Add a use of a table.

    Args:
        graph: the graph that gets the use.
        use: the use.
        name: name of the table.
        packed: the table.
        layout: layout of the table in the file.
        leading: the arguments before the table, in the order of the torch operators: tensors, None, literals.
        id_check: check of ids around a lookup or bag, or None.

    Returns:
        The results, and their line in the manifest of the delegate, or None.
    """
    given = dict(zip((declared.split()[1] for declared in LEADING[use]), leading, strict=True))
    if id_check is None or "ids" not in given:
        return _add_any(graph, use, name, packed, layout, given)
    checked = CheckedIds(graph, given["ids"], packed.num_embeddings, id_check)
    (made,), line = _add_any(graph, use, name, packed, layout, {**given, "ids": checked.ids})
    return (checked.rows(made) if use == "rows" else checked.bags(made, given["offsets"]),), line


def _add_any(
    graph: Graph, use: Use, name: str, packed: PackedTable, layout: str, given: dict[str, Any]
) -> tuple[tuple[Tensor, ...], str | None]:
    """Add a use of a table in any order of its rows, as `add_use` does, from the arguments by name."""
    row_order = packed.tensors().get("row_order")
    if row_order is None:
        return _add_plain(graph, use, name, packed, layout, given)
    stored = graph.table(stored_name(name, "row_order"), row_order)
    if "ids" in given:
        return _add_plain(graph, use, name, packed, layout, {**given, "ids": graph.gather(stored, given["ids"])})
    (by_row,), line = _add_plain(graph, "logits", name, packed, layout, {"hidden": given.pop("hidden")})
    by_id = graph.gather(by_row, stored, axis=len(by_row.shape) - 1)
    return output_layers.largest(graph, by_id, **given) if use == "topk" else (by_id,), line


def _add_plain(
    graph: Graph, use: Use, name: str, packed: PackedTable, layout: str, given: Mapping[str, Any]
) -> tuple[tuple[Tensor, ...], str | None]:
    """Add a use of a table in the order of its rows, as `add_use` does, from the arguments by name."""
    method = METHODS[packed.method]
    with located(f"table {name}"):
        results = _USES[use](graph, packed, lambda ids: method.rows(graph, name, packed, ids, layout), **given)
    made = dict(zip(("output", "output_ids"), results, strict=False))
    return results, manifest_line(use, packed, {**given, **made}, method.fields(name, packed, layout))


def _rows(graph: Graph, packed: PackedTable, rows: output_layers.Rows, ids: Tensor) -> tuple[Tensor, ...]:
    return (rows(ids),)


def _bag(graph: Graph, packed: PackedTable, rows: output_layers.Rows, ids: Tensor, **rest: Any) -> tuple[Tensor, ...]:
    return (bag.bags(graph, rows(ids), ids, **rest, padding_idx=packed.padding_idx),)


def _logits(graph: Graph, packed: PackedTable, rows: output_layers.Rows, hidden: Tensor) -> tuple[Tensor, ...]:
    return (output_layers.logits(graph, hidden, rows, packed.num_embeddings),)


def _topk(
    graph: Graph, packed: PackedTable, rows: output_layers.Rows, hidden: Tensor, bias: Tensor | None, k: int
) -> tuple[Tensor, ...]:
    return output_layers.largest(graph, output_layers.logits(graph, hidden, rows, packed.num_embeddings), bias, k)


_USES: Mapping[Use, Callable[..., tuple[Tensor, ...]]] = {"rows": _rows, "bag": _bag, "logits": _logits, "topk": _topk}
