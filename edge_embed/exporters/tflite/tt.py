"""TT in TFLite: an id is split into digits, each gathers a slice of its core, and the slices are multiplied.

    ids [*], core_k float32 or float16 [I_k, R_k, J_k R_{k+1}]  ->  rows [*ids, d]

The first core is stored as [I_0, R_0 J_0, R_1], from which the product grows to the right. With R_0 = R_N > 1 (a tensor
ring) the row is the trace over that rank. Ids from n on may have valid digits, and int64 ids are truncated to int32 for
their digits. So ids are compared with the limits first, and a ``GATHER`` refuses ids out of range.
"""

import numpy as np

from edge_embed.errors import BadInputError
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.int32_ids import int32_ids
from edge_embed.exporters.tflite.method import Fields, TfliteMethod
from edge_embed.exporters.tflite.stored_types import floats, store
from edge_embed.packed.stored_names import stored_name, stored_names
from edge_embed.packed.tt import PackedTT

_LARGEST_ID = 2**31 - 1


def _rows(graph: Graph, name: str, packed: PackedTT, ids: Tensor, layout: str) -> Tensor:
    """Add the lookup of rows [*ids, d] in the type of the table.

    Raises:
        BadInputError: there are more rows than int32 can index.
    """
    if packed.shape.num_rows > _LARGEST_ID:
        got = f"got {packed.shape.num_rows:,} rows from the row shape"
        raise BadInputError(
            f"{got}, expected at most {_LARGEST_ID:,}: TFLite supports division of int32 only; use --target onnx"
        )
    flat_ids = graph.flatten(ids)  # [B]
    digits = _digits(graph, int32_ids(graph, flat_ids, packed.num_embeddings), packed.shape.row_shape)
    product, height = None, packed.shape.ranks[0]
    for k, (core, digit) in enumerate(zip(packed.cores, digits, strict=True)):
        num_rows, before, columns, after = core.shape
        kept = (num_rows, before * columns, after) if product is None else (num_rows, before, columns * after)
        gathered = graph.gather(store(graph, stored_name(name, f"core_{k}"), core.reshape(kept)), digit)
        factor = graph.cast(floats(graph, gathered, packed.value_type), "float32")  # [B, *, *]
        wide = factor if product is None else graph.batch_matmul(product, factor)
        height *= columns
        product = graph.reshape(wide, (-1, height, after))  # [B, R_0 J_0 ... J_k, R_{k+1}]
    assert product is not None
    made = _trace(graph, product, packed)  # [B, d]
    if packed.padding_idx is not None:
        is_padding = graph.binary("EQUAL", flat_ids, graph.constant(packed.padding_idx, ids.dtype))
        made = graph.select(graph.reshape(is_padding, (-1, 1)), graph.constant(0, "float32"), made)
    return graph.cast(graph.reshape_like(made, ids, packed.embedding_dim), packed.row_type)


def _digits(graph: Graph, ids: Tensor, row_shape: tuple[int, ...]) -> list[Tensor]:
    """Return the digits of ids, the most significant first."""
    digits: list[Tensor] = []
    for base in reversed(row_shape[1:]):
        digits.insert(0, graph.binary("FLOOR_MOD", ids, graph.constant(base)))
        ids = graph.binary("FLOOR_DIV", ids, graph.constant(base))
    return [ids, *digits]


def _trace(graph: Graph, product: Tensor, packed: PackedTT) -> Tensor:
    """Compute the trace of [B, R d, R] -> [B, d]."""
    ring, dim = packed.shape.ranks[0], packed.embedding_dim
    if ring == 1:
        return graph.reshape(product, (-1, dim))
    by_rank = graph.reshape(product, (-1, ring, dim, ring))
    diagonal = graph.constant(np.eye(ring).reshape(ring, 1, ring), "float32")
    return graph.sum(graph.binary("MUL", by_rank, diagonal), (1, 3))


def _fields(name: str, packed: PackedTT, layout: str) -> Fields:
    cores = stored_names(name, (f"core_{k}" for k in range(len(packed.cores))))
    shape = packed.shape
    return {**cores, "row_shape": shape.row_shape, "col_shape": shape.col_shape, "ranks": shape.ranks}


TT = TfliteMethod(
    PackedTT.method,
    choose=lambda packed, wanted: "cores",
    table_bytes=lambda packed, layout: 0,
    rows=_rows,
    read=lambda stored, shape, layout: {},
    fields=_fields,
)
