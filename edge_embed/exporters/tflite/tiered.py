"""Tiered tables in TFLite: each id is looked up in every tier, and its own row is selected.

    ids [*], tier_map uint8 [blocks, 64], tier_ranks int32 [blocks, 3], tensors of each tier  ->  rows float32 [*ids, d]

An id has place 0 in the tiers of other ids. Its place in its own tier is the rank of its block, the rows of that tier
in earlier bytes of the block, and those in its own byte (`edge_embed.packed.tier_map`). As no operator is bitwise,
small tables have the rows of each tier in each byte value. A file has no tensors without elements.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.exporters.tflite import dpq
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.int32_ids import int32_ids
from edge_embed.exporters.tflite.method import Fields, TfliteMethod
from edge_embed.exporters.tflite.stored_table import StoredTable
from edge_embed.packed.stored_names import stored_name
from edge_embed.packed.tier_map import BITS, BLOCK, NUM_TIERS
from edge_embed.packed.tiered import PackedTiered
from edge_embed.packed.tiered_shape import NO_MAP, TieredShape, tensor_name

_PER_BYTE = 8 // BITS  # rows
_BYTE_VALUES = 256
_OF_OTHER_TABLES = ("method", "unused_columns")


def _rows(graph: Graph, name: str, packed: PackedTiered, ids: Tensor, layout: str) -> Tensor:
    """Add the lookup of rows [*ids, d]."""
    flat_ids = int32_ids(graph, graph.flatten(ids), packed.num_embeddings)  # [B]
    tiers, places = (_mapped if packed.tier_map is not None else _sorted)(graph, name, packed, flat_ids)
    found = None
    for number, tier in enumerate(packed.tiers):
        is_own = graph.binary("EQUAL", tiers, graph.constant(number))
        own_places = graph.binary("MUL", places, graph.cast(is_own, "int32"))
        prefix = stored_name(name, tensor_name(number, ""))
        rows = graph.cast(dpq.add_rows(graph, prefix, tier, own_places, dpq.whole_codes(tier)), "float32")  # [B, d]
        found = rows if found is None else graph.select(graph.reshape(is_own, (-1, 1)), rows, found)
    assert found is not None
    if packed.padding_idx is not None:
        is_padding = graph.binary("EQUAL", flat_ids, graph.constant(packed.padding_idx))
        found = graph.select(graph.reshape(is_padding, (-1, 1)), graph.constant(0, "float32"), found)
    return graph.reshape_like(found, ids, packed.embedding_dim)


def _sorted(graph: Graph, name: str, packed: PackedTiered, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Add tier and place of ids [B], where rows are sorted by tier: each [B]."""
    ends = np.cumsum([tier.num_embeddings for tier in packed.tiers])
    is_before = graph.binary("LESS", graph.reshape(ids, (-1, 1)), graph.constant(ends[:-1]))  # [B, 2]
    before = graph.sum(graph.cast(is_before, "int32"), (1,))
    tiers = graph.binary("SUB", graph.constant(NUM_TIERS - 1), before)
    starts = graph.gather(graph.constant(np.append(0, ends[:-1])), tiers)
    return tiers, graph.binary("SUB", ids, starts)


def _mapped(graph: Graph, name: str, packed: PackedTiered, ids: Tensor) -> tuple[Tensor, Tensor]:
    """Add tier and place of ids [B] by the map: each [B]."""
    tensors = packed.tensors()
    tier_map = graph.table(stored_name(name, "tier_map"), tensors["tier_map"])
    ranks = graph.table(stored_name(name, "tier_ranks"), tensors["tier_ranks"])
    before, within = (graph.table(stored_name(name, key), table) for key, table in _COUNTS.items())
    blocks = graph.binary("FLOOR_DIV", ids, graph.constant(BLOCK))
    stored = graph.cast(graph.gather(tier_map, blocks), "int32")  # [B, 64]
    of_byte = graph.binary("FLOOR_MOD", ids, graph.constant(_PER_BYTE))
    in_block = graph.binary("FLOOR_MOD", ids, graph.constant(BLOCK))
    at = graph.reshape(graph.binary("FLOOR_DIV", in_block, graph.constant(_PER_BYTE)), (-1, 1))  # [B, 1]
    numbers = graph.constant(np.arange(BLOCK // _PER_BYTE))
    is_own = graph.cast(graph.binary("EQUAL", numbers, at), "int32")  # [B, 64]
    own = graph.sum(graph.binary("MUL", stored, is_own), (1,))  # the byte of each id
    divisor = graph.gather(graph.constant([1 << BITS * place for place in range(_PER_BYTE)]), of_byte)
    tiers = graph.binary("FLOOR_MOD", graph.binary("FLOOR_DIV", own, divisor), graph.constant(1 << BITS))

    first = graph.binary("MUL", tiers, graph.constant(_BYTE_VALUES))
    counted = graph.gather(before, graph.binary("ADD", stored, graph.reshape(first, (-1, 1))))  # [B, 64]
    is_before = graph.cast(graph.binary("LESS", numbers, at), "int32")
    in_bytes = graph.sum(graph.binary("MUL", graph.cast(counted, "int32"), is_before), (1,))
    row_of_table = graph.binary("ADD", graph.binary("MUL", tiers, graph.constant(_PER_BYTE)), of_byte)
    at_byte = graph.binary("ADD", graph.binary("MUL", row_of_table, graph.constant(_BYTE_VALUES)), own)
    in_byte = graph.cast(graph.gather(within, at_byte), "int32")

    at_rank = graph.binary("ADD", graph.binary("MUL", blocks, graph.constant(NUM_TIERS)), tiers)
    rank = graph.gather(graph.reshape(ranks, (-1,)), at_rank)
    return tiers, graph.binary("ADD", graph.binary("ADD", rank, in_bytes), in_byte)


def _counts() -> dict[str, NDArray[np.uint8]]:
    """Return rows of a tier in a byte, [3 256], and in the places of a byte before one, [3 4 256]."""
    shifts = BITS * np.arange(_PER_BYTE)
    codes = np.arange(_BYTE_VALUES)[:, np.newaxis] >> shifts & (1 << BITS) - 1  # [256, 4]
    is_of = codes == np.arange(NUM_TIERS).reshape(-1, 1, 1)  # [3, 256, 4]
    until = is_of.cumsum(2) - is_of  # before each place
    counts = {"rows_of_byte": is_of.sum(2), "rows_before": until.transpose(0, 2, 1)}
    return {name: table.reshape(-1).astype(np.uint8) for name, table in counts.items()}


_COUNTS = _counts()


def _table_bytes(packed: PackedTiered, layout: str) -> int:
    own = sum(table.nbytes for table in _COUNTS.values()) if packed.tier_map is not None else 0
    return own + sum(dpq.table_bytes(tier, dpq.whole_codes(tier)) for tier in packed.tiers)


def _read(stored: StoredTable, shape: TieredShape, layout: str) -> dict[str, NDArray[Any]]:
    """Return the tensors without elements, which a file omits."""
    specs = shape.tensor_specs()
    empty = (tensor for tensor, spec in specs.items() if 0 in spec.shape)
    return {tensor: np.empty(specs[tensor].shape, specs[tensor].dtype) for tensor in empty}


def _fields(name: str, packed: PackedTiered, layout: str) -> Fields:
    """Return the delegate's fields: rows and fields of each tier, and the map."""
    own: dict[str, Any] = {"tiers": tuple(tier.num_embeddings for tier in packed.tiers)}
    if packed.tier_map is not None:
        own |= {tensor: stored_name(name, tensor) for tensor in NO_MAP}
    for number, tier in enumerate(packed.tiers):
        of_tier = dpq.fields(stored_name(name, tensor_name(number, "")), tier, dpq.whole_codes(tier)) or {}
        own |= {tensor_name(number, key): value for key, value in of_tier.items() if key not in _OF_OTHER_TABLES}
    return own


TIERED = TfliteMethod(
    PackedTiered.method,
    choose=lambda packed, wanted: "tiers",
    table_bytes=_table_bytes,
    rows=_rows,
    read=_read,
    fields=_fields,
)
