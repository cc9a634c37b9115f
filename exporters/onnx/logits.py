"""Output heads in ONNX: the node ``edge_embed::<X>Logits`` of every method, and its portable body.

    hidden [*, d], <tensors>  ->  logits [*, n]                                  logits[*, i] = <hidden[*], row(i)>

The body loops over blocks of rows, which the method's own node looks up: the counter of the loop is no constant, so
nothing of the table is unfolded ahead of time, and no more than one block of rows exists. Blocks are as equal as can
be; the last ones repeat row n - 1 until they are full, and what that adds is cut off.
"""

# A block has at most this many numbers: enough for an efficient product, few enough for a cache.
_BLOCK_NUMBERS = 1 << 19

# states: [M, d]; ids: [block]; block_rows: [block, d]; by_state: [M, blocks, block]
# A part is [1, M, block]: loops stack them, but the reference evaluator joins them; stacked, [blocks, M, block], is
# the same from both.
_BODY = """
  zero = Constant <value_int: int = 0> ()
  one = Constant <value_int: int = 1> ()
  axis_0 = Constant <value_ints: ints = [0]> ()
  last_1d = Constant <value_ints: ints = [-1]> ()
  always = Cast <to: int = 9> (one)
{num_rows}
  hidden_shape = Shape (hidden)
  width_1d = Gather (hidden_shape, last_1d)
  leading_shape = Slice (hidden_shape, axis_0, last_1d, axis_0)
  width = Squeeze (width_1d, axis_0)
  num_states = ReduceProd <keepdims: int = 1> (leading_shape)
  states_shape = Concat <axis: int = 0> (num_states, width_1d)
  given_states = Reshape <allowzero: int = 1> (hidden, states_shape)
  states = Cast <to: int = 1> (given_states)
  block_numbers = Constant <value_int: int = {block_numbers}> ()
  numbers = Div (block_numbers, width)
  some_rows = Max (numbers, one)
  last_row = Sub (num_rows, one)
  last_block = Div (last_row, some_rows)
  num_blocks = Add (last_block, one)
  others = Div (last_row, num_blocks)
  block = Add (others, one)
  scores = Loop (num_blocks, always) <
    body = one_block (int64 at, bool continue) => (bool more, part) {{
      more = Identity (continue)
      start = Mul (at, block)
      end = Add (start, block)
      next_ids = Range (start, end, one)
      ids = Min (next_ids, last_row)
      looked_up = {rows} (ids, {tensors})
      block_rows = Cast <to: int = 1> (looked_up)
      columns = Transpose <perm: ints = [1, 0]> (block_rows)
      block_scores = MatMul (states, columns)
      given_scores = CastLike (block_scores, hidden)
      part = Unsqueeze (given_scores, axis_0)
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


def body(rows: str, tensors: tuple[str, ...], num_rows: str) -> str:
    """Nodes of the function.

    Args:
        rows: operator and attributes of the node that looks rows up.
        tensors: its inputs after the ids.
        num_rows: nodes that compute the scalar ``num_rows``.
    """
    return _BODY.format(
        rows=rows, tensors=", ".join(tensors), num_rows=num_rows.strip("\n"), block_numbers=_BLOCK_NUMBERS
    )
