"""The shared part of output layers in ONNX: a loop over blocks of rows, and the logits of one block.

The rows of a block are looked up by the method's own node. The counter of the loop is no constant, so a session cannot
compute the dense table ahead of time. Only one block of rows exists at a time. Blocks have equal sizes, except that
the last one may have fewer rows.
"""

from dataclasses import dataclass

# The largest number of elements of a block: enough for an efficient product, few enough for a cache.
_BLOCK_NUMBERS = 1 << 19

# Before the loop. states: [M, d]; block: rows of a block
_BEFORE = """
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
  fitting_rows = Div (block_numbers, width)
  some_rows = Max (fitting_rows, one)
  last_row = Sub (num_rows, one)
  last_block = Div (last_row, some_rows)
  num_blocks = Add (last_block, one)
  others = Div (last_row, num_blocks)
  block = Add (others, one)
"""

# In the loop, from row_ids: [block]. block_rows: [block, d]; row_scores: [M, block]
_ROW_SCORES = """
      looked_up = {rows} (row_ids, {tensors})
      block_rows = Cast <to: int = 1> (looked_up)
      columns = Transpose <perm: ints = [1, 0]> (block_rows)
      row_scores = MatMul (states, columns)
"""
_LOGITS = """
{block}
      block_logits = CastLike ({result}, hidden)
"""


@dataclass(frozen=True)
class Scores:
    """Nodes that compute the logits of a block of rows; by default they are products with the rows.

    Attributes:
        before: nodes before the loop, from ``states`` and the numbers of rows and states.
        block: nodes inside it, from ``row_ids``; ``{row_scores}`` stands for nodes that compute ``row_scores`` from
            the rows of the block.
        result: name of the logits in float32, [M, block].
    """

    before: str = ""
    block: str = "{row_scores}"
    result: str = "row_scores"


def body(use: str, rows: str, tensors: tuple[str, ...], num_rows: str, scores: Scores) -> str:
    """Return the nodes of a function over all rows.

    Args:
        use: nodes of the use, with ``{before}`` before the loop and ``{logits}`` inside it, after ``row_ids``.
        rows: operator and attributes of the node that looks up rows.
        tensors: its inputs after the ids.
        num_rows: nodes that compute the scalar ``num_rows``.
        scores: nodes of the method.
    """
    before = _BEFORE.format(num_rows=num_rows.strip("\n"), block_numbers=_BLOCK_NUMBERS) + scores.before.strip("\n")
    row_scores = _ROW_SCORES.format(rows=rows, tensors=", ".join(tensors)).strip("\n")
    block = scores.block.format(row_scores=row_scores).strip("\n")
    logits = _LOGITS.format(block=block, result=scores.result)
    return use.format(before=before.strip("\n"), logits=logits.strip("\n"))
