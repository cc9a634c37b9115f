"""DPQ in ONNX: the node ``edge_embed::DPQEmbedding`` and its portable body.

    ids, codes uint8 [n, row_bytes], values float32 [G, K, s]  ->  rows float32 [*ids, D * s]

The body gathers the stored rows first, then unpacks, then selects: whatever depends on constants alone
would be folded back to a dense table when a session is created. A code touches at most three bytes; they
are put together as an int32, shifted by division and masked by remainder, which every runtime has. Ids
out of range are sent to row n, which ``Gather`` refuses; left alone, negative ones would wrap around.
"""

from typing import Any

from edge_embed.exporters.onnx.method import OnnxMethod
from edge_embed.ops import dpq
from edge_embed.packed.bits import bits_for
from edge_embed.packed.dpq import PackedDPQ

FORMAT_VERSION = 1

# ids: [*], bytes: [*, row_bytes], words and codes: [*, D], sub-vectors: [*, D, s]
_BODY = """
(ids, codes, values) => (rows)
{
  zero = Constant <value_int: int = 0> ()
  one = Constant <value_int: int = 1> ()
  eight = Constant <value_int: int = 8> ()
  bits = Constant <value_int: int = @bits> ()
  num_codes = Constant <value_int: int = @num_codes> ()
  num_groups = Constant <value_int: int = @num_groups> ()
  padding_idx = Constant <value_int: int = @padding_idx> ()
  axis_0 = Constant <value_ints: ints = [0]> ()
  axis_last = Constant <value_ints: ints = [-1]> ()

  num_rows_1d = Shape <start: int = 0, end: int = 1> (codes)
  num_rows = Squeeze (num_rows_1d, axis_0)
  wide_ids = Cast <to: int = 7> (ids)
  below = Less (wide_ids, zero)
  above = GreaterOrEqual (wide_ids, num_rows)
  outside = Or (below, above)
  safe_ids = Where (outside, num_rows, wide_ids)
  bytes = Gather <axis: int = 0> (codes, safe_ids)

  group = Range (zero, num_groups, one)
  first_bit = Mul (group, bits)
  first_byte = Div (first_bit, eight)
  shift = Mod (first_bit, eight)
  row_bytes = Shape <start: int = 1, end: int = 2> (codes)
  last_byte = Sub (row_bytes, one)
  next_byte = Add (first_byte, one)
  second_byte = Min (next_byte, last_byte)
  after_next_byte = Add (next_byte, one)
  third_byte = Min (after_next_byte, last_byte)

  low = Gather <axis: int = -1> (bytes, first_byte)
  middle = Gather <axis: int = -1> (bytes, second_byte)
  high = Gather <axis: int = -1> (bytes, third_byte)
  low_word = Cast <to: int = 6> (low)
  middle_word = Cast <to: int = 6> (middle)
  high_word = Cast <to: int = 6> (high)
  two_8 = Constant <value: tensor = int32 {256}> ()
  two_16 = Constant <value: tensor = int32 {65536}> ()
  middle_part = Mul (middle_word, two_8)
  high_part = Mul (high_word, two_16)
  low_and_middle = Add (low_word, middle_part)
  word = Add (low_and_middle, high_part)
  two = Constant <value: tensor = int32 {2}> ()
  shift_32 = Cast <to: int = 6> (shift)
  bits_32 = Cast <to: int = 6> (bits)
  divisor = Pow (two, shift_32)
  modulus = Pow (two, bits_32)
  shifted = Div (word, divisor)
  stored_code = Mod (shifted, modulus)
  last_code = Sub (num_codes, one)
  last_code_32 = Cast <to: int = 6> (last_code)
  code = Min (stored_code, last_code_32)

  stored_groups = Shape <start: int = 0, end: int = 1> (values)
  value_group = Mod (group, stored_groups)
  offset = Mul (value_group, num_codes)
  wide_code = Cast <to: int = 7> (code)
  index = Add (wide_code, offset)
  width = Shape <start: int = 2, end: int = 3> (values)
  flat_shape = Concat <axis: int = 0> (axis_last, width)
  flat_values = Reshape (values, flat_shape)
  sub_vectors = Gather <axis: int = 0> (flat_values, index)

  ids_shape = Shape (ids)
  dim = Mul (width, num_groups)
  rows_shape = Concat <axis: int = 0> (ids_shape, dim)
  selected = Reshape <allowzero: int = 1> (sub_vectors, rows_shape)
  is_padding = Equal (wide_ids, padding_idx)
  is_padding_row = Unsqueeze (is_padding, axis_last)
  no_value = Constant <value_float: float = 0.0> ()
  rows = Where (is_padding_row, no_value, selected)
}
"""


def _attributes(codes: Any, values: Any, num_groups: int, padding_idx: int | None) -> dict[str, int]:
    num_codes = int(values.shape[1])
    return {
        "format_version": FORMAT_VERSION,
        "bits": bits_for(num_codes),
        "num_codes": num_codes,
        "num_groups": num_groups,
        "padding_idx": -1 if padding_idx is None else padding_idx,
    }


DPQ = OnnxMethod(
    name=PackedDPQ.method,
    operator=dpq.FROZEN,
    op_type="DPQEmbedding",
    inputs=("ids", "codes", "values"),
    attributes=_attributes,
    attribute_names=("format_version", "bits", "num_codes", "num_groups", "padding_idx"),
    body=_BODY,
)
