"""Uses of a packed table in a TFLite graph, whatever its method: rows, bags, logits, the rows of the largest logits."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edge_embed.exporters.tflite import bag, heads
from edge_embed.exporters.tflite.ant import ANT
from edge_embed.exporters.tflite.dpq import DPQ
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.manifest import manifest_line
from edge_embed.exporters.tflite.method import TfliteMethod
from edge_embed.exporters.tflite.tt import TT
from edge_embed.ops.operators import LEADING
from edge_embed.packed.form import Packed, Use
from edge_embed.packed.manifest import located

METHODS: Mapping[str, TfliteMethod] = {method.name: method for method in (ANT, DPQ, TT)}


@dataclass(frozen=True)
class Layout:
    """How a table lies in the file, and the bytes that this adds to its packed form."""

    name: str
    added_bytes: int


def choose_layouts(tables: Mapping[str, Packed], tflite_table: str) -> dict[str, Layout]:
    """The layout of every table.

    Raises:
        BadInputError: a table cannot have the layout that is wanted.
    """
    layouts = {}
    for name, packed in tables.items():
        method = METHODS[packed.method]
        with located(f"table {name}"):
            chosen = method.choose(packed, tflite_table)
        layouts[name] = Layout(chosen, method.table_bytes(packed, chosen))
    return layouts


def stored_hashes(name: str, packed: Packed, layout: str) -> Mapping[str, str]:
    """SHA-256 of what a table stores in that layout, by name of the tensor."""
    graph = Graph()
    add_use(graph, "rows", name, packed, layout, [graph.input("ids", "int32", (-1,))])
    return graph.hashes


def layouts_json(hashes: Mapping[str, str], layouts: Mapping[str, Layout]) -> str:
    """What a file says of its layouts; hashes are those of the tensors of all tables, by name."""
    entries = {
        table: {
            "layout": layout.name,
            "sha256": {tensor: digest for tensor, digest in hashes.items() if tensor.rpartition(".")[0] == table},
        }
        for table, layout in layouts.items()
    }
    return json.dumps(entries, sort_keys=True)


def add_use(
    graph: Graph, use: Use, name: str, packed: Packed, layout: str, leading: Sequence[Any]
) -> tuple[tuple[Tensor, ...], str | None]:
    """Add a use of a table.

    Args:
        graph: where.
        use: which.
        name: of the table.
        packed: the table.
        layout: how it lies in the file.
        leading: the arguments before the table, in the order of the operators of torch: tensors, None, literals.

    Returns:
        The results, and their line in the manifest of the delegate, None where it has none.
    """
    method = METHODS[packed.method]
    given = dict(zip((declared.split()[1] for declared in LEADING[use]), leading, strict=True))
    with located(f"table {name}"):
        results = _USES[use](graph, packed, lambda ids: method.rows(graph, name, packed, ids, layout), **given)
    made = dict(zip(("output", "output_ids"), results, strict=False))
    return results, manifest_line(use, packed, {**given, **made}, method.fields(name, packed, layout))


def _rows(graph: Graph, packed: Packed, rows: heads.Rows, ids: Tensor) -> tuple[Tensor, ...]:
    return (rows(ids),)


def _bag(graph: Graph, packed: Packed, rows: heads.Rows, ids: Tensor, **rest: Any) -> tuple[Tensor, ...]:
    return (bag.bags(graph, rows(ids), ids, **rest, padding_idx=packed.padding_idx),)


def _logits(graph: Graph, packed: Packed, rows: heads.Rows, hidden: Tensor) -> tuple[Tensor, ...]:
    return (heads.logits(graph, hidden, rows, packed.num_embeddings),)


def _topk(
    graph: Graph, packed: Packed, rows: heads.Rows, hidden: Tensor, bias: Tensor | None, k: int
) -> tuple[Tensor, ...]:
    return heads.topk(graph, hidden, bias, k, rows, packed.num_embeddings)


_USES: Mapping[Use, Callable[..., tuple[Tensor, ...]]] = {"rows": _rows, "bag": _bag, "logits": _logits, "topk": _topk}
