"""DPQ in TFLite: stored rows are gathered, then unpacked, then selected; no step depends on constants alone.

    ids [*], codes uint8 [n, row_bytes], values [G K, s]  ->  rows [*, D s]

The time in a runtime depends on the number of pieces that ``GATHER`` copies. There is no bitwise operator, so bytes are
unpacked by small tables, in one of three layouts:

- ``direct``: a code is a byte (K = 129 ... 256), and plus the start of its group it is an index into the values.
- ``pairs``: a byte holds several whole codes. For each place in a row, the file stores the sub-vectors of each byte
  value side by side, instead of the values: [256 row_bytes, (8 / bits) s].
- ``byte``: the file stores the codes in each of the 256 values of a byte, [256, 8 / bits]. If codes cross bytes, it
  stores the part that each value adds to a code, for every position of a code in its bytes. At most 3 lookups per code
  are added.

The padding row is stored as zeros: its indices begin at a row of zeros behind all others. Rows with scales are
multiplied with them in float32, see `edge_embed.packed.row_scales`.
"""

from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError, suggested
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.method import Fields, TfliteMethod
from edge_embed.exporters.tflite.stored_table import StoredTable
from edge_embed.exporters.tflite.stored_types import floats, store, zeros_after
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.stored_names import stored_name

TfliteTable = Literal["auto", "byte", "pairs"]

_ROW_SCALES = ("row_scale_codes", "row_scales")
_BYTE_VALUES = 256
# `auto` selects pairs if they add at most this share to the table.
_MOST_GROWTH = 0.2


def _choose(packed: PackedDPQ, wanted: str) -> str:
    """Return the layout of codes: ``direct``, ``pairs`` or ``byte``.

    Raises:
        BadInputError: there is no such choice, or pairs are requested but a byte does not hold several whole codes.
    """
    if wanted not in get_args(TfliteTable):
        known = get_args(TfliteTable)
        hint = suggested(str(wanted), known)
        raise BadInputError(f"tflite_table: got {wanted!r:.80}, {hint}expected one of {', '.join(known)}")
    if packed.bits == 8:
        return "direct"
    if wanted == "auto":
        grows = _pairs_bytes(packed) - packed.values.nbytes
        return "pairs" if _whole_bytes(packed) and grows <= _MOST_GROWTH * packed.nbytes else "byte"
    if wanted == "pairs" and not _whole_bytes(packed):
        got = f"got 'pairs' for {packed.num_groups} groups of {packed.bits} bits"
        raise BadInputError(f"tflite_table: {got}, expected 1, 2 or 4 bits that fill whole bytes: use auto or byte")
    return wanted


def whole_codes(packed: PackedDPQ) -> str:
    """Return the layout that stores the values themselves."""
    return "direct" if packed.bits == 8 else "byte"


def table_bytes(packed: PackedDPQ, chosen: str) -> int:
    """Return the bytes of the table in the file beyond those of its packed form."""
    if chosen == "pairs":
        return _pairs_bytes(packed) - packed.values.nbytes
    return 0 if chosen == "direct" else sum(part.nbytes for part in _parts(packed))


def add_rows(graph: Graph, prefix: str, packed: PackedDPQ, ids: Tensor, chosen: str) -> Tensor:
    """Add the lookup of rows [*ids, d] in the type of the table, whose tensors have names of this prefix."""
    flat_ids = graph.flatten(ids)  # [B]
    stored = graph.gather(store(graph, prefix + "codes", packed.codes), flat_ids)  # [B, row_bytes]
    places = graph.cast(stored, "int32")
    if chosen == "byte":
        places = _codes(graph, prefix, packed, places)  # [B, D]
    pieces = pairs(packed) if chosen == "pairs" else packed.values.reshape(-1, packed.values.shape[2])
    step = _BYTE_VALUES if chosen == "pairs" else packed.num_codes
    places = _begin_at(graph, places, packed, flat_ids, step, len(pieces))
    if packed.padding_idx is not None:
        pieces = zeros_after(pieces)
    table = store(graph, prefix + ("pairs" if chosen == "pairs" else "values"), pieces)
    selected = graph.gather(table, places)  # [B, *, *]
    if packed.value_scales is not None:
        wide = floats(graph, selected, packed.value_type)
        by_group = graph.reshape(wide, (-1, packed.num_groups, packed.shape.group_width))
        scales = graph.table(prefix + "value_scales", packed.value_scales.reshape(-1, 1))  # [D or 1, 1]
        selected = graph.binary("MUL", by_group, scales)
    if packed.unused_columns:
        every = graph.reshape(selected, (-1, packed.num_groups * packed.shape.group_width))
        selected = graph.gather(every, graph.constant(np.arange(packed.embedding_dim)), axis=1)
    if packed.row_scales is not None:
        return graph.reshape_like(_scaled(graph, prefix, packed, selected, flat_ids), ids, packed.embedding_dim)
    shaped = graph.reshape_like(selected, ids, packed.embedding_dim)
    # Last, because tflite-runtime crashes on a RESHAPE of float16.
    return graph.bitcast(shaped, "float16") if packed.value_type == "float16" else shaped


def _scaled(graph: Graph, prefix: str, packed: PackedDPQ, selected: Tensor, ids: Tensor) -> Tensor:
    """Multiply rows [B, d] with their scales, float32; int8 values are dequantised already."""
    rows = graph.reshape(selected, (-1, packed.embedding_dim))  # before they are float16, which cannot be reshaped
    if packed.value_scales is None:
        rows = graph.cast(floats(graph, rows, packed.value_type), "float32")
    stored = {tensor: store(graph, prefix + tensor, packed.tensors()[tensor]) for tensor in _ROW_SCALES}
    codes = graph.cast(graph.gather(stored["row_scale_codes"], ids), "int32")  # [B]
    scales = graph.gather(stored["row_scales"], codes)
    return graph.binary("MUL", rows, graph.reshape(scales, (-1, 1)))


def pairs(packed: PackedDPQ) -> NDArray[Any]:
    """Return the sub-vectors of the values of a byte, [256 row_bytes or 256, (8 / bits) s]."""
    count = 8 // packed.bits
    codes = _byte_codes(packed.bits).clip(max=packed.num_codes - 1)  # [256, count]
    tables, _, width = packed.values.shape
    if packed.shape.shared:
        shared: NDArray[Any] = packed.values[0][codes]  # [256, count, s]
        return shared.reshape(_BYTE_VALUES, count * width)
    groups = np.arange(tables).reshape(-1, 1, count)  # [row_bytes, 1, count]
    decoded: NDArray[Any] = packed.values[groups, codes]  # [row_bytes, 256, count, s]
    return decoded.reshape(-1, count * width)


def _rows(graph: Graph, name: str, packed: PackedDPQ, ids: Tensor, chosen: str) -> Tensor:
    return add_rows(graph, stored_name(name, ""), packed, ids, chosen)


def _read(stored: StoredTable, shape: DPQShape, layout: str) -> dict[str, NDArray[Any]]:
    """Return the values from ``pairs``: each byte with one code, and zeros around it, holds the part of that code."""
    if layout != "pairs":
        return {}
    count, places = 8 // shape.bits, 1 if shape.shared else shape.row_bytes
    sides = stored.get("pairs", shape.value_type, (places, _BYTE_VALUES, count, shape.group_width))
    parts = [sides[:, np.arange(shape.num_codes) << shape.bits * at, at] for at in range(1 if shape.shared else count)]
    return {"values": np.stack(parts, 1).reshape(shape.num_value_tables, shape.num_codes, shape.group_width)}


def _begin_at(graph: Graph, places: Tensor, packed: PackedDPQ, ids: Tensor, step: int, end: int) -> Tensor:
    """Add the start of each group's values, or for the padding row that of the zeros."""
    width = places.shape[-1]
    begins = np.zeros(width, np.int32) if packed.shape.shared else step * np.arange(width, dtype=np.int32)
    if packed.padding_idx is not None:
        is_padding = graph.binary("EQUAL", ids, graph.constant(packed.padding_idx, ids.dtype))
        both = graph.constant(np.stack((begins, np.full(width, end, np.int32))))  # [2, width]
        return graph.binary("ADD", places, graph.gather(both, graph.cast(is_padding, "int32")))
    return graph.binary("ADD", places, graph.constant(begins)) if begins.any() else places


def _codes(graph: Graph, prefix: str, packed: PackedDPQ, stored: Tensor) -> Tensor:
    """Add the unpacking of codes int32 [B, D] from the bytes of rows, int32 [B, row_bytes]."""
    parts = [graph.table(prefix + f"bytes_{number}", part) for number, part in enumerate(_parts(packed))]
    if _whole_bytes(packed):
        found = graph.gather(parts[0], stored)  # [B, row_bytes, 8 / bits]
        return graph.reshape(found, (-1, packed.num_groups))
    total = None
    first_bit = packed.bits * np.arange(packed.num_groups)
    for number, table in enumerate(parts):
        at = np.minimum(first_bit // 8 + number, packed.row_bytes - 1)
        touched = graph.gather(stored, graph.constant(at), axis=1)  # [B, D]
        ways = graph.constant(_BYTE_VALUES * (first_bit % 8))
        part = graph.gather(table, graph.binary("ADD", touched, ways))
        total = part if total is None else graph.binary("ADD", total, part)
    assert total is not None
    return total


def _parts(packed: PackedDPQ) -> list[NDArray[np.int32]]:
    """Return the tables of ``byte``: [256, 8 / bits], or [8 * 256] for each byte that a code can overlap."""
    if _whole_bytes(packed):
        return [_byte_codes(packed.bits)]
    values, begin = np.arange(_BYTE_VALUES), np.arange(8)[:, np.newaxis]
    touched = -(-(packed.bits + 7) // 8)
    words = [values << 8 * number >> begin & (1 << packed.bits) - 1 for number in range(touched)]  # [8, 256]
    return [word.astype(np.int32).reshape(-1) for word in words]


def _byte_codes(bits: int) -> NDArray[np.int32]:
    """Return the codes in a byte, int32 [256, 8 / bits]."""
    values = np.arange(_BYTE_VALUES, dtype=np.int32)[:, np.newaxis]
    return values >> bits * np.arange(8 // bits, dtype=np.int32) & (1 << bits) - 1


def _whole_bytes(packed: PackedDPQ) -> bool:
    """Return whether every byte holds several codes and no other bits."""
    return packed.bits in (1, 2, 4) and packed.num_groups * packed.bits == 8 * packed.row_bytes


def _pairs_bytes(packed: PackedDPQ) -> int:
    places = 1 if packed.shape.shared else packed.row_bytes
    return places * _BYTE_VALUES * 8 // packed.bits * packed.shape.group_width * packed.values.itemsize


def fields(prefix: str, packed: PackedDPQ, layout: str) -> Fields | None:
    """Return the delegate's fields: pairs without scales are codes of eight bits."""
    common: dict[str, str | int] = {"codes": f"{prefix}codes", "shared": int(packed.shape.shared)}
    if not packed.shape.is_plain:
        common |= {"method": "dpq_scaled", "unused_columns": packed.unused_columns}
    if packed.row_scales is not None:
        common |= {tensor: f"{prefix}{tensor}" for tensor in _ROW_SCALES}
    if layout == "pairs":
        width = 8 // packed.bits * packed.shape.group_width
        pair = {"num_codes": _BYTE_VALUES, "bits": 8, "num_groups": packed.row_bytes, "group_width": width}
        return None if packed.value_scales is not None else {**common, "values": f"{prefix}pairs", **pair}
    if packed.value_scales is not None:
        common["value_scales"] = f"{prefix}value_scales"
    sizes = {"num_codes": packed.num_codes, "bits": packed.bits, "num_groups": packed.num_groups}
    return {**common, "values": f"{prefix}values", **sizes, "group_width": packed.shape.group_width}


def _fields(name: str, packed: PackedDPQ, layout: str) -> Fields | None:
    return fields(stored_name(name, ""), packed, layout)


DPQ = TfliteMethod(PackedDPQ.method, _choose, table_bytes, _rows, _read, _fields)
