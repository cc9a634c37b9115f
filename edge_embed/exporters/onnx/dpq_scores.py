"""Logits of a block of rows of DPQ from the bytes of the codes, for a few hidden states.

A byte of a row holds whole codes if their number of bits divides 8. It then adds one of 256 numbers to the logit of a
state, so these numbers are computed once a call: ``tables`` [M row_bytes, 256] for M states. Every logit is a sum of
``row_bytes`` of them, and no row is computed. ``GatherElements`` copies a number in less time than ``Gather``, and
copies faster along the last axis, so bytes are transposed. A product with ones sums faster than ``ReduceSum``.

Products with rows are faster for many states, because most of their time is spent on the rows. The limit is as many
copied numbers as a row has columns. Tables of few rows would not repay ``tables``.
"""

from edge_embed.exporters.onnx.folding_barrier import NOTHING
from edge_embed.exporters.onnx.nodes import dpq as nodes
from edge_embed.exporters.onnx.row_blocks import Scores

_FEWEST_ROWS = 4096

# codes_of_byte: [256, 8 / bits], index of each code of a byte among the codes of all its places
# products: [D, K, M]; tables: [M row_bytes, 256]
_TABLES = """
  two = Constant <value_int: int = 2> ()
  eight = Constant <value_int: int = 8> ()
  bits = Constant <value_int: int = @bits> ()
  num_groups = Constant <value_int: int = @num_groups> ()
  fewest_rows = Constant <value_int: int = {fewest_rows}> ()
  row_bytes_1d = Shape <start: int = 1, end: int = 2> (codes)
  numbers_of_states = Mul (num_states, row_bytes_1d)
  some_1d = Greater (num_states, zero)
  few_1d = LessOrEqual (numbers_of_states, width)
  cheap_1d = And (some_1d, few_1d)
  cheap = Squeeze (cheap_1d, axis_0)
  unused_bits = Mod (eight, bits)
  whole_codes = Equal (unused_bits, zero)
  enough_rows = GreaterOrEqual (num_rows, fewest_rows)
  worth = And (whole_codes, enough_rows)
  by_bytes = And (worth, cheap)
  tables = If (by_bytes) <
    then_branch = of_bytes () => (byte_tables) {{
{nothing}
      one_byte = Div (eight, bits)
      per_byte = Max (one_byte, one)
      per_byte_1d = Unsqueeze (per_byte, axis_0)
      num_codes = Constant <value_int: int = @num_codes> ()
      last_code = Sub (num_codes, one)
      groups_1d = Unsqueeze (num_groups, axis_0)
      sub_width = Shape <start: int = 2, end: int = 3> (values)
      groups_shape = Concat <axis: int = 0> (num_states, groups_1d, sub_width)
      by_group = Reshape <allowzero: int = 1> (states, groups_shape)
      group_states = Transpose <perm: ints = [1, 2, 0]> (by_group)
      values_shape = Shape (values)
      values_now = Add (values_shape, nothing_1d)
      given_values = Reshape (values, values_now)
      wide_values = Cast <to: int = 1> (given_values)
      {unscaled} = MatMul (wide_values, group_states)
{scale}
      places = Mul (row_bytes_1d, per_byte_1d)
      no_groups = Sub (places, groups_1d)
      no_others = Constant <value_ints: ints = [0, 0]> ()
      nowhere = Constant <value_ints: ints = [0, 0, 0]> ()
      padding = Concat <axis: int = 0> (nowhere, no_groups, no_others)
      padded = Pad (products, padding)
      by_state = Transpose <perm: ints = [2, 0, 1]> (padded)
      num_codes_1d = Unsqueeze (num_codes, axis_0)
      entries = Mul (per_byte_1d, num_codes_1d)
      entries_shape = Concat <axis: int = 0> (numbers_of_states, entries)
      by_entry = Reshape <allowzero: int = 1> (by_state, entries_shape)
      nothing = Squeeze (nothing_1d, axis_0)
      end = Constant <value_int: int = 256> ()
      byte = Range (nothing, end, one)
      byte_column = Unsqueeze (byte, last_1d)
      place = Range (zero, per_byte, one)
      first_bit = Mul (place, bits)
      divisor = Pow (two, first_bit)
      from_bit = Div (byte_column, divisor)
      codes_of_bits = Pow (two, bits)
      stored_code = Mod (from_bit, codes_of_bits)
      code = Min (stored_code, last_code)
      first_entry = Mul (place, num_codes)
      codes_of_byte = Add (code, first_entry)
      summands = Gather <axis: int = 1> (by_entry, codes_of_byte)
      byte_tables = ReduceSum <keepdims: int = 0> (summands, last_1d)
    }},
    else_branch = of_no_byte () => (no_tables) {{
      no_tables = Constant <value: tensor = float[1, 1] {{0.0}}> ()
    }}
  >
  padding_idx = Constant <value_int: int = @padding_idx> ()
  each = Constant <value: tensor = float {{1.0}}> ()
  no_score = Constant <value: tensor = float {{0.0}}> ()
  axis_1 = Constant <value_ints: ints = [1]> ()
  each_shape = Concat <axis: int = 0> (axis_1, row_bytes_1d)
  each_byte = Expand (each, each_shape)
  repeats = Concat <axis: int = 0> (num_states, axis_1)
"""
_SCALE = """
      axes = Constant <value_ints: ints = [1, 2]> ()
      group_scales = Unsqueeze (value_scales, axes)
      products = Mul (unscaled, group_scales)
"""

_BLOCK = """
      block_scores = If (by_bytes) <
        then_branch = from_bytes () => (byte_scores) {{
          bytes = Gather <axis: int = 0> (codes, row_ids)
          by_place = Transpose <perm: ints = [1, 0]> (bytes)
          of_states = Tile (by_place, repeats)
          index = Cast <to: int = 6> (of_states)
          summands = GatherElements <axis: int = 1> (tables, index)
          block_size = Shape (row_ids)
          summands_shape = Concat <axis: int = 0> (num_states, row_bytes_1d, block_size)
          by_byte = Reshape <allowzero: int = 1> (summands, summands_shape)
          sums_3d = MatMul (each_byte, by_byte)
          sums = Squeeze (sums_3d, axis_1)
          is_padding = Equal (row_ids, padding_idx)
          byte_scores = Where (is_padding, no_score, sums)
        }},
        else_branch = from_rows () => (row_scores) {{
{row_scores}
        }}
      >
"""


def scores(count: int) -> Scores:
    """Return the nodes for tables of ``count`` tensors."""
    is_scaled = count == len(nodes.TENSORS)
    tables = _TABLES.format(
        fewest_rows=_FEWEST_ROWS,
        nothing=NOTHING.format(tensor="hidden"),
        unscaled="unscaled" if is_scaled else "products",
        scale=_SCALE if is_scaled else "",
    )
    return Scores(tables, _BLOCK, "block_scores")
