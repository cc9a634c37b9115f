"""Top-k in ONNX: the node ``edge_embed::<X>TopK`` of every method, and its portable body.

    hidden [*, d], bias [n] or [0], <tensors>  ->  values [*, k], ids int64 [*, k]

The results are the k largest logits[*, i] = <hidden[*], row(i)> + bias[i] and their i, equal ones by lowest i. The loop
keeps the best so far and holds the logits of only one block. ``TopK`` selects the lowest position among equal values.
That is the lowest id, because the best so far precede the block, whose ids are all larger.
"""

from typing import Any

from edge_embed.exporters.onnx import row_blocks

# wide: [M, block]; values and ids of the best so far: [M, up to k], none at first
# A float16 logit is rounded before and after its bias is added, as in a graph that adds it to the logits. Optimisers
# drop a cast to float16 before another one to float32, unless a node such as Reshape is between them.
_BODY = """
{before}
  k = Constant <value_int: int = @k> ()
  biased = Constant <value_int: int = @biased> ()
  k_1d = Unsqueeze (k, axis_0)
  is_biased = Equal (biased, one)
  no_columns = Constant <value_ints: ints = [0]> ()
  none_shape = Concat <axis: int = 0> (num_states, no_columns)
  no_value = Constant <value: tensor = float {{0.0}}> ()
  no_values = Expand (no_value, none_shape)
  no_ids = Expand (zero, none_shape)
  all_values, all_ids = Loop (num_blocks, always, no_values, no_ids) <
    body = one_block (int64 at, bool continue, best_values, best_ids) => (bool more, next_values, next_ids) {{
      more = Identity (continue)
      start = Mul (at, block)
      full_end = Add (start, block)
      end = Min (full_end, num_rows)
      row_ids = Range (start, end, one)
{logits}
      block_shape = Shape (block_logits)
      kept_logits = Reshape <allowzero: int = 1> (block_logits, block_shape)
      scores = If (is_biased) <
        then_branch = add_bias () => (sums) {{
          start_1d = Unsqueeze (start, axis_0)
          end_1d = Unsqueeze (end, axis_0)
          block_bias = Slice (bias, start_1d, end_1d, axis_0)
          sums = Add (kept_logits, block_bias)
        }},
        else_branch = keep () => (no_sums) {{
          no_sums = Identity (kept_logits)
        }}
      >
      kept_scores = Reshape <allowzero: int = 1> (scores, block_shape)
      wide = Cast <to: int = 1> (kept_scores)
      block_ids = Expand (row_ids, block_shape)
      both_values = Concat <axis: int = 1> (best_values, wide)
      both_ids = Concat <axis: int = 1> (best_ids, block_ids)
      both_width = Shape <start: int = 1, end: int = 2> (both_values)
      count = Min (k_1d, both_width)
      next_values, chosen = TopK <axis: int = 1> (both_values, count)
      next_ids = GatherElements <axis: int = 1> (both_ids, chosen)
    }}
  >
  result_shape = Concat <axis: int = 0> (leading_shape, k_1d)
  wide_values = Reshape <allowzero: int = 1> (all_values, result_shape)
  top_values = CastLike (wide_values, hidden)
  top_ids = Reshape <allowzero: int = 1> (all_ids, result_shape)
"""

# scores: [*, n], rounded before and after the bias is added, as in a graph that adds it to the logits: a Reshape keeps
# optimisers from dropping both casts. An omitted bias has no numbers, which would not fit the logits, so the size of
# whole_bias must be unknown before it runs.
OF_LOGITS = """
  one = Constant <value_int: int = 1> ()
  k = Constant <value_int: int = @k> ()
  k_1d = Unsqueeze (k, zero_1d)
  biased = Constant <value_int: int = @biased> ()
  is_biased = Equal (biased, one)
  scores = If (is_biased) <
    then_branch = add_bias () => (sums) {{
      bias_shape = Shape (bias)
      every = Expand (is_biased, bias_shape)
      whole_bias = Compress <axis: int = 0> (bias, every)
      sums = Add (by_id, whole_bias)
    }},
    else_branch = keep () => (no_sums) {{
      no_sums = Identity (by_id)
    }}
  >
  kept_scores = Reshape <allowzero: int = 1> (scores, shape)
  wide = Cast <to: int = 1> (kept_scores)
  wide_values, top_ids = TopK <axis: int = -1> (wide, k_1d)
  top_values = CastLike (wide_values, hidden)
"""
"""The end of a body with all logits in memory, ``by_id`` [*, n] of ``shape``; equal values are ordered by lowest id."""


def attributes(hidden: Any, bias: Any, k: int) -> dict[str, int]:
    """Return the attributes of the node besides those of its table."""
    return {"k": k, "biased": int(bias is not None)}


def body(rows: str, tensors: tuple[str, ...], num_rows: str, scores: row_blocks.Scores) -> str:
    """Return the nodes of the function; see `edge_embed.exporters.onnx.row_blocks.body`."""
    return row_blocks.body(_BODY, rows, tensors, num_rows, scores)
