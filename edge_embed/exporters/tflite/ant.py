"""ANT in TFLite: the weights of a row times its anchors, from one of two layouts of the sparse transform.

- ``fixed``: every row has as many entries as the longest, and additional entries refer to an anchor of zeros:
  anchor_ids and weights [n, m]. Rows are batched products [1, m] [m, d]. Used if it does not enlarge the table.
- ``csr``: as in the packed form, row_offsets [n + 1], anchor_ids and weights [nnz]. The entries of all ids are
  concatenated, gathered, and summed by row. Memory is the number of those entries times d.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.method import Fields, TfliteMethod
from edge_embed.exporters.tflite.stored_table import StoredTable
from edge_embed.exporters.tflite.stored_types import floats, indices, store, zeros_after
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.ant_shape import ANTShape, anchor_id_type
from edge_embed.packed.stored_names import stored_name, stored_names


def _choose(packed: PackedANT, wanted: str) -> str:
    """Return ``fixed`` if it has no more bytes than ``csr``, otherwise ``csr``."""
    entry = np.dtype(_fixed_id_type(packed.shape)).itemsize + packed.weights.itemsize
    fixed = packed.num_embeddings * _longest(packed) * entry
    csr = packed.row_offsets.nbytes + packed.anchor_ids.nbytes + packed.weights.nbytes
    return "fixed" if fixed <= csr else "csr"


def _rows(graph: Graph, name: str, packed: PackedANT, ids: Tensor, chosen: str) -> Tensor:
    """Add the lookup of rows [*ids, d] in the type of the table."""
    flat_ids = graph.flatten(ids)  # [B]
    made = (_fixed_rows if chosen == "fixed" else _csr_rows)(graph, name, packed, flat_ids)
    return graph.cast(graph.reshape_like(made, ids, packed.embedding_dim), packed.row_type)


def _fixed_rows(graph: Graph, name: str, packed: PackedANT, ids: Tensor) -> Tensor:
    counts = np.diff(packed.row_offsets)
    inside = np.arange(_longest(packed)) < counts[:, np.newaxis]  # [n, m]
    anchor_ids = np.full(inside.shape, len(packed.anchors), _fixed_id_type(packed.shape))
    weights = np.zeros(inside.shape, packed.weights.dtype)
    anchor_ids[inside], weights[inside] = packed.anchor_ids, packed.weights
    anchors = store(graph, stored_name(name, "anchors"), zeros_after(packed.anchors))
    chosen, weight = _entries(graph, name, packed, anchor_ids, weights, ids)  # [B, m]
    terms = graph.cast(floats(graph, graph.gather(anchors, chosen), packed.value_type), "float32")  # [B, m, d]
    return graph.batch_matmul(graph.reshape(weight, (-1, 1, inside.shape[1])), terms)  # [B, 1, d]


def _csr_rows(graph: Graph, name: str, packed: PackedANT, ids: Tensor) -> Tensor:
    offsets = store(graph, stored_name(name, "row_offsets"), packed.row_offsets)
    start = graph.gather(offsets, ids)  # [B]
    after_id = graph.binary("ADD", ids, graph.constant(1, ids.dtype))
    count = graph.binary("SUB", graph.gather(offsets, after_id), start)
    first = graph.binary("SUB", graph.cumsum(count), count)  # the start of the entries of each id
    total = graph.sum(count, (0,))
    row = row_of_entries(graph, first, graph.reshape(total, (1,)))  # [N]
    shift = graph.gather(graph.binary("SUB", start, first), row)
    position = graph.binary("ADD", graph.range(total), shift)
    anchors = store(graph, stored_name(name, "anchors"), packed.anchors)
    chosen, weight = _entries(graph, name, packed, packed.anchor_ids, packed.weights, position)  # [N]
    terms = graph.cast(floats(graph, graph.gather(anchors, chosen), packed.value_type), "float32")  # [N, d]
    weighted = graph.binary("MUL", terms, graph.reshape(weight, (-1, 1)))
    return graph.segment("SUM", weighted, row, graph.size(ids))


def row_of_entries(graph: Graph, first: Tensor, total: Tensor) -> Tensor:
    """Add the piece of each of ``total`` [1] entries, int32 [total].

    Pieces begin at first [B], the first of them at 0; an empty piece begins where the next one does.
    """
    places = graph.concatenate([first, total])  # never empty, because runtimes refuse that; the last is cut off again
    ones = graph.binary("ADD", graph.binary("MUL", places, graph.constant(0)), graph.constant(1))
    begins = graph.scatter(places, ones, graph.binary("ADD", total, graph.constant(1)))
    begun = graph.slice(graph.cumsum(begins), 0, -1)
    return graph.binary("SUB", begun, graph.constant(1))


def _entries(
    graph: Graph,
    name: str,
    packed: PackedANT,
    anchor_ids: NDArray[np.unsignedinteger[Any]],
    weights: NDArray[Any],
    places: Tensor,
) -> tuple[Tensor, Tensor]:
    """Add the lookup of anchor ids int32 and weights float32 at some places."""
    stored = graph.gather(store(graph, stored_name(name, "anchor_ids"), anchor_ids), places)
    chosen = indices(graph, stored, anchor_ids.dtype.name)
    found = graph.gather(store(graph, stored_name(name, "weights"), weights), places)
    weight = graph.cast(floats(graph, found, weights.dtype.name), "float32")
    if packed.weight_scale[0] != 1:
        weight = graph.binary("MUL", weight, graph.table(stored_name(name, "weight_scale"), packed.weight_scale))
    return chosen, weight


def _read(stored: StoredTable, shape: ANTShape, layout: str) -> dict[str, NDArray[Any]]:
    """Return a scale of 1, which the file omits, and for ``fixed`` the packed form of the entries."""
    made = {} if stored.has("weight_scale") else {"weight_scale": np.ones(1, np.float32)}
    return {**made, **_sparse(stored, shape)} if layout == "fixed" else made


def _sparse(stored: StoredTable, shape: ANTShape) -> dict[str, NDArray[Any]]:
    """Return the entries that refer to anchors, and the start of those of each row."""
    kind = np.dtype(_fixed_id_type(shape))
    width = stored.nbytes("anchor_ids") // (shape.num_embeddings * kind.itemsize)
    ids = stored.get("anchor_ids", kind.name, (shape.num_embeddings, width))
    inside = ids < shape.num_anchors
    offsets = np.zeros(shape.num_embeddings + 1, np.int32)
    np.cumsum(inside.sum(1), out=offsets[1:])
    return {
        "row_offsets": offsets,
        "anchor_ids": ids[inside].astype(shape.anchor_id_type),
        "weights": stored.get("weights", shape.weight_type, ids.shape)[inside],
    }


def _longest(packed: PackedANT) -> int:
    """Return the number of entries of the longest row, at least 1."""
    return max(1, int(np.diff(packed.row_offsets).max()))


def _fixed_id_type(shape: ANTShape) -> str:
    return anchor_id_type(shape.num_anchors + 1)


def _fields(name: str, packed: PackedANT, layout: str) -> Fields:
    tensors = stored_names(name, ("anchor_ids", "weights", "anchors"))
    if packed.weight_scale[0] != 1:
        tensors["weight_scale"] = stored_name(name, "weight_scale")
    if layout == "csr":
        sizes = {"num_weights": len(packed.weights), "num_anchors": len(packed.anchors)}
        return {
            **tensors,
            "row_offsets": stored_name(name, "row_offsets"),
            **sizes,
            "embedding_dim": packed.embedding_dim,
        }
    width = _longest(packed)
    sizes = {"num_weights": packed.num_embeddings * width, "num_anchors": len(packed.anchors) + 1, "row_width": width}
    return {**tensors, **sizes, "embedding_dim": packed.embedding_dim}


ANT = TfliteMethod(PackedANT.method, _choose, lambda packed, layout: 0, _rows, _read, _fields)
