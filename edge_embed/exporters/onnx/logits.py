"""Output layers in ONNX: the node ``edge_embed::<X>Logits`` of every method, and its portable body.

    hidden [*, d], <tensors>  ->  logits [*, n]                                  logits[*, i] = <hidden[*], row(i)>

All blocks of rows have one size, because the loop stacks their logits. The last blocks repeat row n - 1 until they are
full, and these additional logits are cut off.
"""

from edge_embed.exporters.onnx import row_blocks

# A part is [1, M, block]: ONNX Runtime's loop stacks them, but the reference evaluator joins them; reshaped to
# [blocks, M, block] both are equal. by_state: [M, blocks, block]
_BODY = """
{before}
  scores = Loop (num_blocks, always) <
    body = one_block (int64 at, bool continue) => (bool more, part) {{
      more = Identity (continue)
      start = Mul (at, block)
      end = Add (start, block)
      next_ids = Range (start, end, one)
      row_ids = Min (next_ids, last_row)
{logits}
      part = Unsqueeze (block_logits, axis_0)
    }}
  >
  blocks_1d = Unsqueeze (num_blocks, axis_0)
  block_1d = Unsqueeze (block, axis_0)
  stacked_shape = Concat <axis: int = 0> (blocks_1d, num_states, block_1d)
  stacked = Reshape <allowzero: int = 1> (scores, stacked_shape)
  by_state = Transpose <perm: ints = [1, 0, 2]> (stacked)
  all_rows = Mul (blocks_1d, block_1d)
  full_shape = Concat <axis: int = 0> (leading_shape, all_rows)
  full = Reshape <allowzero: int = 1> (by_state, full_shape)
  rows_1d = Unsqueeze (num_rows, axis_0)
  logits = Slice (full, axis_0, rows_1d, last_1d)
"""


def body(rows: str, tensors: tuple[str, ...], num_rows: str, scores: row_blocks.Scores) -> str:
    """Return the nodes of the function; see `edge_embed.exporters.onnx.row_blocks.body`."""
    return row_blocks.body(_BODY, rows, tensors, num_rows, scores)
