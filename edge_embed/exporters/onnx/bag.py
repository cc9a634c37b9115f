"""Bags in ONNX: the node ``edge_embed::<X>EmbeddingBag`` of every method, and its portable body.

    ids [N], offsets int64 [B + 1], sample_weights [N], <tensors>  ->  bags [B, d]

Rows are looked up by the method's own node. Sums are differences of running sums over all rows, at the ends and begins
of the bags. They are exact, because they are sums of integers: the rows of a bag are multiplied with a power of two so
that all sums together fit into 60 bits, and cut to integers of 64 bits. A running float32 sum would lose more than a
digit in a bag of some hundred rows, and onnxruntime-web has no kernels for float64 in its build for WebGPU. If a row is
not finite, or the sums are too large, they are scattered in float32. Maxima are scattered to the row of their bag,
element by element. ``ScatterND`` would scatter whole rows, but ONNX Runtime runs it on several threads, which lose
terms of the same bag. Ids equal to ``padding_idx`` belong to an additional bag behind the last one, which is dropped:
they are multiplied with 0, not counted, and not part of the maximum.

Offsets that do not run from 0 to N, or decrease, are counted. That count is an index into one element, and ``Gather``
refuses any index but 0. The result, the 0 ``nothing_1d``, is added to the sizes of buffers, so that no session keeps
them if shapes are static.
"""

from typing import Any

# In the order of the values of the attribute ``mode``.
MODES = ("sum", "mean", "max")

# begun: [N], bags that begin at or before a position; target: [N, 1] and targets: [N, d], bag of a position
# limits: [B + 1], bounds of the sums of a bag times the number of bags; units: [B], factors of its rows
# running_sums: [N + 1, d]; sums and bags: [B (+ 1), d]
_BODY = """
  zero = Constant <value_int: int = 0> ()
  one = Constant <value_int: int = 1> ()
  two = Constant <value_int: int = 2> ()
  mode = Constant <value_int: int = @mode> ()
  weighted = Constant <value_int: int = @weighted> ()
  padding_idx = Constant <value_int: int = @padding_idx> ()
  axis_0 = Constant <value_ints: ints = [0]> ()
  first_1d = Constant <value_ints: ints = [0]> ()
  last_1d = Constant <value_ints: ints = [-1]> ()
  one_1d = Constant <value_ints: ints = [1]> ()
  no_end = Constant <value_ints: ints = [9223372036854775807]> ()
  column = Constant <value_ints: ints = [-1, 1]> ()

  count_1d = Shape (ids)
  begin = Slice (offsets, first_1d, last_1d, axis_0)
  end = Slice (offsets, one_1d, no_end, axis_0)
  bags_1d = Shape (begin)
  falls = Less (end, begin)
  falls_64 = Cast <to: int = 7> (falls)
  num_falls = ReduceSum <keepdims: int = 1> (falls_64, axis_0)
  first_offset = Gather (offsets, first_1d)
  last_offset = Gather (offsets, last_1d)
  missing = Sub (last_offset, count_1d)
  off_begin = Abs (first_offset)
  off_end = Abs (missing)
  off_ends = Add (off_begin, off_end)
  wrong = Add (off_ends, num_falls)
  nothing_1d = Gather (first_1d, wrong)

  count_now = Add (count_1d, nothing_1d)
  bags_now = Add (bags_1d, nothing_1d)
  places = Add (count_now, one_1d)
  nothing = Expand (zero, places)
  ones = Expand (one, bags_now)
  begins = ScatterElements <axis: int = 0, reduction: string = "add"> (nothing, begin, ones)
  begun_to_end = CumSum (begins, zero)
  begun = Slice (begun_to_end, first_1d, count_1d, axis_0)
  bag = Sub (begun, one)
  wide_ids = Cast <to: int = 7> (ids)
  is_padding = Equal (wide_ids, padding_idx)
  target_1d = Where (is_padding, bags_now, bag)
  target = Reshape (target_1d, column)
  targets_1d = Add (bags_now, one_1d)
  no_count = Constant <value: tensor = float {{0.0}}> ()
  no_counts = Expand (no_count, targets_1d)
  single = Constant <value: tensor = float {{1.0}}> ()
  singles = Expand (single, count_now)
  counts_and_padding = ScatterElements <axis: int = 0, reduction: string = "add"> (no_counts, target_1d, singles)
  counts = Slice (counts_and_padding, first_1d, last_1d, axis_0)
  counts_column = Reshape (counts, column)

  looked_up = {rows} (ids, {tensors})
  plain = Cast <to: int = 1> (looked_up)
  is_weighted = Equal (weighted, one)
  terms = If (is_weighted) <
    then_branch = multiply () => (products) {{
      factors = Cast <to: int = 1> (sample_weights)
      factors_shape = Concat <axis: int = 0> (count_now, one_1d)
      factors_column = Reshape <allowzero: int = 1> (factors, factors_shape)
      products = Mul (plain, factors_column)
    }},
    else_branch = keep () => (kept) {{
      kept = Identity (plain)
    }}
  >
  width = Shape <start: int = 1, end: int = 2> (looked_up)
  sums_shape = Concat <axis: int = 0> (targets_1d, width)
  terms_shape = Shape (looked_up)
  is_max = Equal (mode, two)
  reduced = If (is_max) <
    then_branch = greatest () => (maxima) {{
      lowest = Constant <value: tensor = float {{-inf}}> ()
      lowest_rows = Expand (lowest, sums_shape)
      max_targets = Expand (target, terms_shape)
      maxima_and_padding = ScatterElements <axis: int = 0, reduction: string = "max"> (lowest_rows, max_targets, terms)
      some_maxima = Slice (maxima_and_padding, first_1d, last_1d, axis_0)
      empty = Equal (counts_column, no_count)
      maxima = Where (empty, no_count, some_maxima)
    }},
    else_branch = total () => (quotients) {{
      at_least_one = Max (counts_column, single)
      is_mean = Equal (mode, one)
      divisor = Where (is_mean, at_least_one, single)
      row_sizes = ReduceL1 <keepdims: int = 0> (terms, one_1d)
      sizes_and_padding = ScatterElements <axis: int = 0, reduction: string = "add"> (no_counts, target_1d, row_sizes)
      num_bags = Cast <to: int = 1> (targets_1d)
      limits = Mul (sizes_and_padding, num_bags)
      difference = Sub (limits, limits)
      sum_of_differences = ReduceSum <keepdims: int = 0> (difference)
      is_finite = Equal (sum_of_differences, no_count)
      quotients = If (is_finite) <
        then_branch = as_integers () => (exact_quotients) {{
          bag_limits = Slice (limits, first_1d, last_1d, axis_0)
          logarithms = Log (bag_limits)
          log_2 = Constant <value: tensor = float {{0.6931472}}> ()
          powers = Div (logarithms, log_2)
          whole_powers = Ceil (powers)
          most_bits = Constant <value: tensor = float {{60.0}}> ()
          bits = Sub (most_bits, whole_powers)
          most_power = Constant <value: tensor = float {{126.0}}> ()
          safe_bits = Min (bits, most_power)
          base = Constant <value: tensor = float {{2.0}}> ()
          units = Pow (base, safe_bits)
          no_count_1d = Reshape (no_count, last_1d)
          units_and_padding = Concat <axis: int = 0> (units, no_count_1d)
          term_units = Gather (units_and_padding, target_1d)
          term_units_column = Reshape (term_units, column)
          scaled = Mul (terms, term_units_column)
          row_shape = Concat <axis: int = 0> (one_1d, width)
          row_shape_now = Add (row_shape, nothing_1d)
          zero_row = Expand (no_count, row_shape_now)
          scaled_after_zero = Concat <axis: int = 0> (zero_row, scaled)
          integers = Cast <to: int = 7> (scaled_after_zero)
          running_sums = CumSum (integers, zero)
          sums_at_begin = Gather (running_sums, begin)
          sums_at_end = Gather (running_sums, end)
          integer_sums = Sub (sums_at_end, sums_at_begin)
          integer_divisor = Cast <to: int = 7> (divisor)
          integer_quotients = Div (integer_sums, integer_divisor)
          rounded = Cast <to: int = 1> (integer_quotients)
          units_column = Reshape (units, column)
          exact_quotients = Div (rounded, units_column)
        }},
        else_branch = as_floats () => (float_quotients) {{
          zero_rows = Expand (no_count, sums_shape)
          targets = Expand (target, terms_shape)
          sums_and_padding = ScatterElements <axis: int = 0, reduction: string = "add"> (zero_rows, targets, terms)
          sums = Slice (sums_and_padding, first_1d, last_1d, axis_0)
          float_quotients = Div (sums, divisor)
        }}
      >
    }}
  >
  bags = CastLike (reduced, looked_up)
"""


def attributes(ids: Any, offsets: Any, sample_weights: Any, mode: str) -> dict[str, int]:
    """Return the attributes of the node besides those of its table."""
    return {"mode": MODES.index(mode), "weighted": int(sample_weights is not None)}


def body(rows: str, tensors: tuple[str, ...]) -> str:
    """Return the nodes of the function.

    Args:
        rows: operator and attributes of the node that looks up rows.
        tensors: its inputs after the ids.
    """
    return _BODY.format(rows=rows, tensors=", ".join(tensors))
