"""DPQ in ONNX: the nodes ``edge_embed::DPQEmbedding...`` and the portable body of rows.

    ids, codes uint8 [n, row_bytes], values float32 or float16 [G, K, s]              ->  rows [*ids, D * s]
    ids, codes uint8 [n, row_bytes], values int8 [G, K, s], value_scales float32 [G]  ->  rows [*ids, D * s], float32

The body first gathers the stored rows, then unpacks, then selects: a session folds all steps that depend on constants
alone, and would build the dense table. The time in a runtime depends on the number of pieces that ``Gather`` copies, so
there are three ways:

- Many ids, and a byte holds several whole codes. All 256 values of a byte are decoded, at each of its places in a row,
  to their sub-vectors side by side: ``table`` [256 row_bytes, (8 / bits) s]. Then a byte is one index. The table is
  computed in every call and never kept.
- Many ids, and a byte stands for at most 4 values. Then elements are cheaper than pieces: ``GatherElements`` gathers
  them from the same table, [256, row_bytes (8 / bits) s]. The index of an element is its byte. A product of 8 bytes
  with a 0/1 matrix repeats each byte for its values.
- Otherwise a code is one index into the values.

Codes are unpacked by a matrix product: ``bits`` bytes hold 8 codes, and byte p adds ``byte * 2^(8 p - bits j)`` to
each code j that it overlaps. At most 3 bytes overlap a code, so the sum is exact in float32. Fractions and bits beyond
the mask belong to the neighbours. Codes are clamped if the bits can hold more than the number of codes. Zeros are
scattered only into the rows of padding ids; without padding a session removes this step, because it folds conditions on
attributes. ``Gather`` refuses ids from n on; negative ids, which would count from the end, are mapped to row n.

int8 values are selected as int8; the selected rows become floats and are multiplied with the scales of their groups.

``nothing_1d`` is 0, but a session cannot fold it: it is the lesser of 0 and whether the first id is negative. Arrays
that a session would keep beside the packed tensors if they were constants (the bytes to decode, the reshaped values)
are computed from it. So are shapes in branches not taken that a batch of known size may not have.

Tables whose rows have scales use the nodes ``edge_embed::DPQScaled...``, see `edge_embed.exporters.onnx.row_scales`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from edge_embed.exporters.onnx import dpq_scores, row_scales
from edge_embed.exporters.onnx.method import Around, OnnxMethod
from edge_embed.exporters.onnx.nodes import dpq as nodes
from edge_embed.ops import dpq
from edge_embed.packed.bits import bits_for
from edge_embed.packed.dpq import PackedDPQ

FORMAT_VERSION = 1

# B ids; M rows of bytes to decode: all 256 values, or those of the ids
# bytes: [B, row_bytes], source: [M, row_bytes], code and index: [M, D], selected: the rows in the shape of the branch
# that found them, [B, row_bytes, (8 / bits) s], [B, D s] or [B, D, s]
_SELECT = """
  zero = Constant <value_int: int = 0> ()
  one = Constant <value_int: int = 1> ()
  seven = Constant <value_int: int = 7> ()
  eight = Constant <value_int: int = 8> ()
  bits = Constant <value_int: int = @bits> ()
  num_codes = Constant <value_int: int = @num_codes> ()
  num_groups = Constant <value_int: int = @num_groups> ()
  padding_idx = Constant <value_int: int = @padding_idx> ()
  axis_0 = Constant <value_ints: ints = [0]> ()
  axis_1 = Constant <value_ints: ints = [1]> ()
  any_size = Constant <value_ints: ints = [-1]> ()

  num_rows_1d = Shape <start: int = 0, end: int = 1> (codes)
  num_rows = Squeeze (num_rows_1d, axis_0)
  flat_ids = Reshape (ids, any_size)
  wide_ids = Cast <to: int = 7> (flat_ids)
  negative = Less (wide_ids, zero)
  safe_ids = Where (negative, num_rows, wide_ids)
  bytes = Gather <axis: int = 0> (codes, safe_ids)
  some_negative = Slice (negative, axis_0, axis_1, axis_0)
  some_wrong = Cast <to: int = 7> (some_negative)
  wrong_1d = ReduceSum <keepdims: int = 1> (some_wrong, axis_0)
  nothing_1d = Min (wrong_1d, zero)
  nothing = Squeeze (nothing_1d, axis_0)

  row_bytes_1d = Shape <start: int = 1, end: int = 2> (codes)
  row_bytes = Squeeze (row_bytes_1d, axis_0)
  whole_per_byte = Div (eight, bits)
  per_byte = Max (whole_per_byte, one)
  whole_bits = Mul (per_byte, bits)
  bits_fit = Equal (whole_bits, eight)
  several = Greater (per_byte, one)
  whole_codes = Mul (row_bytes, per_byte)
  row_fits = Equal (whole_codes, num_groups)
  batch = Size (ids)
  limit = Constant <value_int: int = 512> ()
  many = GreaterOrEqual (batch, limit)
  fit = And (bits_fit, row_fits)
  width = Shape <start: int = 2, end: int = 3> (values)
  per_byte_1d = Unsqueeze (per_byte, axis_0)
  entry_width = Mul (per_byte_1d, width)
  entry_size = Squeeze (entry_width, axis_0)
  four = Constant <value_int: int = 4> ()
  few_values = LessOrEqual (entry_size, four)
  all_bytes = Size (bytes)
  left_over = Mod (all_bytes, eight)
  in_eights = Equal (left_over, zero)
  narrow = And (few_values, in_eights)
  worth = Or (several, narrow)
  useful = And (worth, many)
  by_table = And (fit, useful)

  source = If (by_table) <
    then_branch = every_byte () => (table_source) {
      end = Constant <value_int: int = 256> ()
      byte = Range (nothing, end, one)
      byte_8 = Cast <to: int = 2> (byte)
      column = Unsqueeze (byte_8, axis_1)
      across = Concat <axis: int = 0> (axis_1, row_bytes_1d)
      table_source = Expand (column, across)
    },
    else_branch = given_bytes () => (batch_source) {
      batch_source = Identity (bytes)
    }
  >
  two_32 = Constant <value: tensor = int32 {2}> ()
  one_32 = Constant <value: tensor = int32 {1}> ()
  values_of_bits = Pow (two_32, bits)
  mask = Sub (values_of_bits, one_32)
  is_byte = Equal (bits, eight)
  stored_code = If (is_byte) <
    then_branch = whole_byte () => (byte_code) {
      byte_code = Cast <to: int = 6> (source)
    },
    else_branch = unpack () => (bit_code) {
      almost = Add (num_groups, seven)
      octets = Div (almost, eight)
      octet_bytes = Mul (octets, bits)
      missing = Sub (octet_bytes, row_bytes)
      missing_1d = Unsqueeze (missing, axis_0)
      none = Constant <value_ints: ints = [0, 0, 0]> ()
      pads = Concat <axis: int = 0> (none, missing_1d)
      padded = Pad (source, pads)
      numbers = Cast <to: int = 1> (padded)
      bits_1d = Unsqueeze (bits, axis_0)
      octet_shape = Concat <axis: int = 0> (any_size, bits_1d)
      by_octet = Reshape (numbers, octet_shape)
      octet_bits = Mul (bits, eight)
      first_byte_bit = Range (zero, octet_bits, eight)
      first_code_bit = Range (zero, octet_bits, bits)
      byte_bit = Unsqueeze (first_byte_bit, axis_1)
      exponent = Sub (byte_bit, first_code_bit)
      minus_8 = Constant <value_int: int = -8> ()
      reaches = Greater (exponent, minus_8)
      starts = Less (exponent, bits)
      touches = And (reaches, starts)
      two = Constant <value: tensor = float {2.0}> ()
      no_weight = Constant <value: tensor = float {0.0}> ()
      power = Pow (two, exponent)
      weight = Where (touches, power, no_weight)
      word = MatMul (by_octet, weight)
      columns = Mul (octets, eight)
      columns_1d = Unsqueeze (columns, axis_0)
      code_shape = Concat <axis: int = 0> (any_size, columns_1d)
      words = Reshape (word, code_shape)
      groups_1d = Unsqueeze (num_groups, axis_0)
      row_words = Slice (words, axis_0, groups_1d, axis_1)
      whole_words = Cast <to: int = 6> (row_words)
      bit_code = BitwiseAnd (whole_words, mask)
    }
  >
  last_code = Sub (num_codes, one)
  last_code_32 = Cast <to: int = 6> (last_code)
  is_full = Equal (last_code_32, mask)
  code = If (is_full) <
    then_branch = keep () => (kept_code) {
      kept_code = Identity (stored_code)
    },
    else_branch = clamp () => (clamped_code) {
      clamped_code = Min (stored_code, last_code_32)
    }
  >

  stored_groups = Shape <start: int = 0, end: int = 1> (values)
  group = Range (zero, num_groups, one)
  value_group = Mod (group, stored_groups)
  first = Mul (value_group, num_codes)
  first_32 = Cast <to: int = 6> (first)
  index = Add (code, first_32)
  constant_shape = Concat <axis: int = 0> (any_size, width)
  flat_shape = Add (constant_shape, nothing_1d)
  flat_values = Reshape (values, flat_shape)

  selected = If (by_table) <
    then_branch = from_table () => (table_rows) {
      entry_shape = Concat <axis: int = 0> (any_size, entry_width)
      table_values = Gather <axis: int = 0> (flat_values, index)
      table_rows = If (narrow) <
        then_branch = by_elements () => (element_rows) {
          row_width = Mul (row_bytes_1d, entry_width)
          element_shape = Concat <axis: int = 0> (any_size, row_width)
          elements = Reshape (table_values, element_shape)
          eight_entries = Mul (eight, entry_size)
          element = Range (nothing, eight_entries, one)
          byte_of_element = Div (element, entry_size)
          byte_place = Range (zero, eight, one)
          byte_column = Unsqueeze (byte_place, axis_1)
          is_of_byte = Equal (byte_column, byte_of_element)
          repeats = Cast <to: int = 2> (is_of_byte)
          constant_eights = Constant <value_ints: ints = [-1, 8]> ()
          eights = Add (constant_eights, nothing_1d)
          eight_bytes = Reshape (bytes, eights)
          repeated = MatMulInteger (eight_bytes, repeats)
          element_at = Reshape (repeated, element_shape)
          element_rows = GatherElements <axis: int = 0> (elements, element_at)
        },
        else_branch = by_entries () => (entry_rows) {
          table = Reshape (table_values, entry_shape)
          row_bytes_32 = Cast <to: int = 6> (row_bytes)
          place = Range (zero, row_bytes, one)
          place_32 = Cast <to: int = 6> (place)
          bytes_32 = Cast <to: int = 6> (bytes)
          byte_start = Mul (bytes_32, row_bytes_32)
          entry = Add (byte_start, place_32)
          entry_rows = Gather <axis: int = 0> (table, entry)
        }
      >
    },
    else_branch = from_values () => (value_rows) {
      value_rows = Gather <axis: int = 0> (flat_values, index)
    }
  >
  dim = Mul (width, num_groups)
"""

# scaled: [B, D, s]; a single scale applies to all groups
_SCALE = """
  group_scales = Unsqueeze (value_scales, axis_1)
  batch_count = Unsqueeze (batch, axis_0)
  group_count = Unsqueeze (num_groups, axis_0)
  groups_shape = Concat <axis: int = 0> (batch_count, group_count, width)
  by_group = Reshape <allowzero: int = 1> (selected, groups_shape)
  unscaled = CastLike (by_group, value_scales)
  scaled = Mul (unscaled, group_scales)
"""

_FINISH = """
  has_padding = GreaterOrEqual (padding_idx, zero)
  padded_rows = If (has_padding) <
    then_branch = with_zeros () => (zeroed_rows) {{
      batch_1d = Unsqueeze (batch, axis_0)
      flat_rows_shape = Concat <axis: int = 0> (batch_1d, dim)
      flat_rows = Reshape <allowzero: int = 1> ({rows}, flat_rows_shape)
      is_padding = Equal (wide_ids, padding_idx)
      padding_row = NonZero (is_padding)
      padding_at = Transpose (padding_row)
      num_padding = Shape <start: int = 1, end: int = 2> (padding_row)
      zeros_shape = Concat <axis: int = 0> (num_padding, dim)
      no_value = Constant <value: tensor = float {{0.0}}> ()
      no_value_like = CastLike (no_value, {like})
      zeros = Expand (no_value_like, zeros_shape)
      zeroed_rows = ScatterND (flat_rows, padding_at, zeros)
    }},
    else_branch = as_selected () => (selected_rows) {{
      selected_rows = Identity ({rows})
    }}
  >
  ids_shape = Shape (ids)
  rows_shape = Concat <axis: int = 0> (ids_shape, dim)
  rows = Reshape <allowzero: int = 1> (padded_rows, rows_shape)
"""

_NUM_ROWS = """
  num_rows_1d = Shape <start: int = 0, end: int = 1> (codes)
  num_rows = Squeeze (num_rows_1d, axis_0)
"""


def _table(
    codes: Any, values: Any, value_scales: Any, num_groups: int, padding_idx: int | None
) -> tuple[Sequence[Any], dict[str, int]]:
    num_codes = int(values.shape[1])
    return [codes, values] if value_scales is None else [codes, values, value_scales], {
        "format_version": FORMAT_VERSION,
        "bits": bits_for(num_codes),
        "num_codes": num_codes,
        "num_groups": num_groups,
        "padding_idx": -1 if padding_idx is None else padding_idx,
    }


def _scaled_table(
    codes: Any,
    values: Any,
    value_scales: Any,
    row_scale_codes: Any,
    row_scales: Any,
    num_groups: int,
    unused_columns: int,
    padding_idx: int | None,
) -> tuple[Sequence[Any], dict[str, int]]:
    tensors, attributes = _table(codes, values, value_scales, num_groups, padding_idx)
    scales = [] if row_scales is None else [row_scale_codes, row_scales]
    return [*tensors, *scales], attributes | {"unused_columns": unused_columns}


def _body(count: int) -> str:
    if count < len(nodes.TENSORS):
        return _SELECT + _FINISH.format(rows="selected", like="values")
    return _SELECT + _SCALE + _FINISH.format(rows="scaled", like="value_scales")


_SAME_VALUES = "freeze all tables with value_type int8, or none, and none beside a tiered table"
DPQ = OnnxMethod(
    name=PackedDPQ.method,
    node=nodes.DPQ,
    operators=dpq.FROZEN,
    table=_table,
    body=_body,
    num_rows=_NUM_ROWS,
    parts="tensors",
    remedy=_SAME_VALUES,
    scores=dpq_scores.scores,
)
SCALED_DPQ = replace(
    DPQ,
    node=nodes.SCALED_DPQ,
    operators=dpq.SCALED,
    table=_scaled_table,
    remedy=f"use per-row scales in all tables or in none, and {_SAME_VALUES}",
    around=Around(
        DPQ,
        row_scales.PLAIN_USES,
        lambda count: count if count <= len(nodes.TENSORS) else count - len(nodes.ROW_SCALES),
        row_scales.body,
    ),
)
METHODS = (DPQ, SCALED_DPQ)
