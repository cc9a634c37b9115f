"""ANT in ONNX: the nodes ``edge_embed::ANTEmbedding...`` and the portable body of rows.

    ids, row_offsets int32 [n + 1], anchor_ids [nnz], weights [nnz], weight_scale float32 [1], anchors [A, d]
        ->  rows [*ids, d]

The nonzeros of all ids are concatenated. From one entry to the next, the position in the table rises by 1, and jumps
at the start of a row; the place in the dense transform [B, A] rises by A there. Such steps are scattered to the starts
of rows and accumulated, so that no step needs the row of an entry. Entries are gathered, scattered to the transform and
multiplied with the anchors: memory is B times A for any length of a row. Products are summed in float32, and by blocks
of 64 anchors if a row of the batch has more than 64 entries: one running sum of products of one sign would lose a
digit. float64 is avoided, because onnxruntime-web has no kernels for it in its build for WebGPU. A row is cut after A
entries, and anchor ids are clamped. ``Gather`` refuses offsets beyond the entries and ids from n on. Negative ids,
which would count from the end, are mapped beyond the last offset.

For many ids the entries are gathered with ``GatherElements``, which copies numbers and takes a seventh of the time of
``Gather``, which copies pieces. For few ids ``Gather`` is used, because ``GatherElements`` of onnx's reference
evaluator handles at most 64 entries.

``nothing_1d`` is 0, but a session cannot fold it: it is the lesser of 0 and whether the first id is negative. Arrays
that a session would keep beside the packed tensors if they were constants (anchors in float32, empty buffers) are
computed from it.
"""

from collections.abc import Sequence
from typing import Any

from edge_embed.exporters.onnx.method import OnnxMethod
from edge_embed.exporters.onnx.nodes import ant as nodes
from edge_embed.ops import ant
from edge_embed.packed.ant import PackedANT

FORMAT_VERSION = 1

# B ids with N nonzeros
# count, first and start: [B], number of entries of a row, and their start in the batch and in the table;
# row_end and row_start: [N], end and start of the row of an entry in the transform; position, anchor, weight and
# place: [N]; transform: [*ids, A]
_BODY = """
  zero = Constant <value_int: int = 0> ()
  one = Constant <value_int: int = 1> ()
  padding_idx = Constant <value_int: int = @padding_idx> ()
  axis_0 = Constant <value_ints: ints = [0]> ()
  one_1d = Constant <value_ints: ints = [1]> ()
  minus_1 = Constant <value_ints: ints = [-1]> ()

  num_offsets_1d = Shape (row_offsets)
  num_offsets = Squeeze (num_offsets_1d, axis_0)
  num_anchors_1d = Shape <start: int = 0, end: int = 1> (anchors)
  num_anchors = Squeeze (num_anchors_1d, axis_0)
  flat_ids = Reshape (ids, minus_1)
  wide_ids = Cast <to: int = 7> (flat_ids)
  negative = Less (wide_ids, zero)
  safe_ids = Where (negative, num_offsets, wide_ids)
  some_negative = Slice (negative, axis_0, one_1d, axis_0)
  some_wrong = Cast <to: int = 7> (some_negative)
  wrong_1d = ReduceSum <keepdims: int = 1> (some_wrong, axis_0)
  nothing_1d = Min (wrong_1d, zero)
  next_ids = Add (safe_ids, one)
  start_32 = Gather (row_offsets, safe_ids)
  end_32 = Gather (row_offsets, next_ids)
  start = Cast <to: int = 7> (start_32)
  end = Cast <to: int = 7> (end_32)
  stored_count = Sub (end, start)
  positive_count = Max (stored_count, zero)
  possible_count = Min (positive_count, num_anchors)
  is_padding = Equal (wide_ids, padding_idx)
  count = Where (is_padding, zero, possible_count)

  after = CumSum (count, zero)
  first = Sub (after, count)
  total_1d = ReduceSum <keepdims: int = 1> (count, axis_0)
  buffer_shape = Add (total_1d, one)
  batch_1d = Shape (flat_ids)
  batch_now = Add (batch_1d, nothing_1d)
  no_rise = Expand (zero, buffer_shape)
  rise = Expand (num_anchors, batch_now)
  rises = ScatterElements <axis: int = 0, reduction: string = "add"> (no_rise, first, rise)
  risen = CumSum (rises, zero)
  row_end = Slice (risen, axis_0, total_1d, axis_0)
  row_start = Sub (row_end, num_anchors)
  shift = Sub (start, first)
  one_and_shift = Concat <axis: int = 0> (one_1d, shift)
  shift_before = Slice (one_and_shift, axis_0, minus_1, axis_0)
  jump = Sub (shift, shift_before)
  single_steps = Expand (one, buffer_shape)
  steps = ScatterElements <axis: int = 0, reduction: string = "add"> (single_steps, first, jump)
  stepped = CumSum (steps, zero)
  position = Slice (stepped, axis_0, total_1d, axis_0)

  batch = Size (ids)
  limit = Constant <value_int: int = 512> ()
  many = GreaterOrEqual (batch, limit)
  stored_anchor, stored_weight = If (many) <
    then_branch = as_elements () => (element_anchor, element_weight) {
      element_anchor = GatherElements (anchor_ids, position)
      element_weight = GatherElements (weights, position)
    },
    else_branch = as_pieces () => (piece_anchor, piece_weight) {
      piece_anchor = Gather (anchor_ids, position)
      piece_weight = Gather (weights, position)
    }
  >
  anchor_64 = Cast <to: int = 7> (stored_anchor)
  last_anchor = Sub (num_anchors, one)
  anchor = Min (anchor_64, last_anchor)
  unscaled = Cast <to: int = 1> (stored_weight)
  scale_32 = Cast <to: int = 1> (weight_scale)
  weight = Mul (unscaled, scale_32)
  place = Add (row_start, anchor)
  cells = Mul (batch_now, num_anchors_1d)
  no_weight = Constant <value: tensor = float {0.0}> ()
  empty = Expand (no_weight, cells)
  filled = ScatterElements <axis: int = 0, reduction: string = "add"> (empty, place, weight)
  ids_shape = Shape (ids)
  transform_shape = Concat <axis: int = 0> (ids_shape, num_anchors_1d)
  transform = Reshape <allowzero: int = 1> (filled, transform_shape)

  nothing = Squeeze (nothing_1d, axis_0)
  every_anchor = Range (nothing, num_anchors, one)
  used_anchors = Gather (anchors, every_anchor)
  counts = Concat <axis: int = 0> (axis_0, count)
  longest = ReduceMax <keepdims: int = 0> (counts)
  short = Constant <value_int: int = 64> ()
  is_long = Greater (longest, short)
  sums = If (is_long) <
    then_branch = in_blocks () => (block_sums) {
      last_1d = Constant <value_ints: ints = [-1]> ()
      always = Cast <to: int = 9> (one)
      last_block = Div (last_anchor, short)
      num_blocks = Add (last_block, one)
      dim = Shape <start: int = 1, end: int = 2> (anchors)
      sums_shape = Concat <axis: int = 0> (ids_shape, dim)
      sums_shape_now = Add (sums_shape, nothing_1d)
      no_sums = Expand (no_weight, sums_shape_now)
      block_sums = Loop (num_blocks, always, no_sums) <
        body = one_block (int64 at, bool continue, before) => (bool more, sum) {
          more = Identity (continue)
          begin = Mul (at, short)
          stop = Add (begin, short)
          begin_1d = Unsqueeze (begin, axis_0)
          stop_1d = Unsqueeze (stop, axis_0)
          block_weights = Slice (transform, begin_1d, stop_1d, last_1d)
          block_anchors = Slice (used_anchors, begin_1d, stop_1d, axis_0)
          block_anchors_32 = Cast <to: int = 1> (block_anchors)
          products = MatMul (block_weights, block_anchors_32)
          sum = Add (before, products)
        }
      >
    },
    else_branch = in_float32 () => (sums_32) {
      anchors_32 = Cast <to: int = 1> (used_anchors)
      sums_32 = MatMul (transform, anchors_32)
    }
  >
  rows = CastLike (sums, anchors)
"""

_NUM_ROWS = """
  num_offsets_1d = Shape (row_offsets)
  num_offsets = Squeeze (num_offsets_1d, axis_0)
  num_rows = Sub (num_offsets, one)
"""


def _table(
    row_offsets: Any, anchor_ids: Any, weights: Any, weight_scale: Any, anchors: Any, padding_idx: int | None
) -> tuple[Sequence[Any], dict[str, int]]:
    tensors = [row_offsets, anchor_ids, weights, weight_scale, anchors]
    return tensors, {"format_version": FORMAT_VERSION, "padding_idx": -1 if padding_idx is None else padding_idx}


ANT = OnnxMethod(
    name=PackedANT.method,
    node=nodes.ANT,
    operators=ant.FROZEN,
    table=_table,
    body=lambda count: _BODY,
    num_rows=_NUM_ROWS,
)
METHODS = (ANT,)
