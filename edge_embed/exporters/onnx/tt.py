"""TT in ONNX: the nodes ``edge_embed::TTEmbedding...`` and the portable body of rows, for a number of cores.

    ids, core_0, ..., core_{N-1}  float32 or float16 [I_k, R_{k-1}, J_k, R_k]  ->  rows [*ids, d]

An id is split into digits, the most significant first. Each digit gathers a slice of its core, and the slices are
multiplied from left to right in float32: the left factor stays small, J_1 ... J_k by R_k, and every slice is read
as it is stored. With R_0 = R_N > 1 (a tensor ring) the row is the trace over that rank. The first slice of a padding
id is zero. Ids from n on may have valid digits, so ids out of range get a first digit that ``Gather`` refuses.

Tables with a row order use the nodes ``edge_embed::TTOrdered...``, see `edge_embed.exporters.onnx.row_order`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from edge_embed.exporters.onnx import row_order
from edge_embed.exporters.onnx.method import Around, OnnxMethod
from edge_embed.exporters.onnx.nodes import tt as nodes
from edge_embed.ops import tt
from edge_embed.packed.tt import PackedTT

FORMAT_VERSION = 1

_DIGITS = """
  zero = Constant <value_int: int = 0> ()
  one = Constant <value_int: int = 1> ()
  num_rows = Constant <value_int: int = @num_embeddings> ()
  padding_idx = Constant <value_int: int = @padding_idx> ()
  axis_0 = Constant <value_ints: ints = [0]> ()
  axis_1 = Constant <value_ints: ints = [1]> ()
  any_size = Constant <value_ints: ints = [-1]> ()
  flat_ids = Reshape (ids, any_size)
  wide_ids = Cast <to: int = 7> (flat_ids)
  below = Less (wide_ids, zero)
  above = GreaterOrEqual (wide_ids, num_rows)
  outside = Or (below, above)
  batch = Shape (flat_ids)
"""

# From the last core to the second one; the remainder is the first digit.
_DIGIT = """
  rows_{k}_1d = Shape <start: int = 0, end: int = 1> (core_{k})
  rows_{k} = Squeeze (rows_{k}_1d, axis_0)
  digit_{k} = Mod ({rest}, rows_{k})
  before_{k} = Div ({rest}, rows_{k})
"""

# product_0: [B, R_0 J_0, R_1]
_FIRST = """
  rows_0_1d = Shape <start: int = 0, end: int = 1> (core_0)
  rows_0 = Squeeze (rows_0_1d, axis_0)
  digit_0 = Where (outside, rows_0, before_1)
  stored_0 = Gather <axis: int = 0> (core_0, digit_0)
  ring = Shape <start: int = 1, end: int = 2> (core_0)
  columns_0 = Shape <start: int = 2, end: int = 3> (core_0)
  rank_0 = Shape <start: int = 3, end: int = 4> (core_0)
  height_0 = Mul (ring, columns_0)
  shape_0 = Concat <axis: int = 0> (batch, height_0, rank_0)
  shaped_0 = Reshape <allowzero: int = 1> (stored_0, shape_0)
  slice_0 = Cast <to: int = 1> (shaped_0)
  is_padding = Equal (wide_ids, padding_idx)
  padding_axes = Constant <value_ints: ints = [1, 2]> ()
  is_padding_row = Unsqueeze (is_padding, padding_axes)
  no_value = Constant <value: tensor = float {0.0}> ()
  product_0 = Where (is_padding_row, no_value, slice_0)
"""

# product_k: [B, R_0 J_0 ... J_k, R_{k+1}]
_STEP = """
  stored_{k} = Gather <axis: int = 0> (core_{k}, digit_{k})
  slice_{k} = Cast <to: int = 1> (stored_{k})
  columns_{k} = Shape <start: int = 2, end: int = 3> (core_{k})
  rank_{k} = Shape <start: int = 3, end: int = 4> (core_{k})
  width_{k} = Mul (columns_{k}, rank_{k})
  slice_shape_{k} = Concat <axis: int = 0> (batch, rank_{before}, width_{k})
  factor_{k} = Reshape <allowzero: int = 1> (slice_{k}, slice_shape_{k})
  wide_product_{k} = MatMul (product_{before}, factor_{k})
  height_{k} = Mul (height_{before}, columns_{k})
  shape_{k} = Concat <axis: int = 0> (batch, height_{k}, rank_{k})
  product_{k} = Reshape <allowzero: int = 1> (wide_product_{k}, shape_{k})
"""

_LAST = """
  dim = Div (height_{last}, ring)
  ids_shape = Shape (ids)
  rows_shape = Concat <axis: int = 0> (ids_shape, dim)
  rank = Squeeze (ring, axis_0)
  is_train = Equal (rank, one)
  sums = If (is_train) <
    then_branch = train () => (matrices) {{
      matrices = Identity (product_{last})
    }},
    else_branch = trace () => (traces) {{
      ring_shape = Concat <axis: int = 0> (batch, ring, dim, ring)
      by_rank = Reshape <allowzero: int = 1> (product_{last}, ring_shape)
      index = Range (zero, rank, one)
      row_axes = Constant <value_ints: ints = [1, 2]> ()
      row_index = Unsqueeze (index, row_axes)
      is_diagonal = Equal (row_index, index)
      diagonal = Where (is_diagonal, by_rank, no_value)
      rank_axes = Constant <value_ints: ints = [1, 3]> ()
      traces = ReduceSum <keepdims: int = 0> (diagonal, rank_axes)
    }}
  >
  rows_32 = Reshape <allowzero: int = 1> (sums, rows_shape)
  rows = CastLike (rows_32, core_0)
"""


def _body(count: int) -> str:
    rests = ["wide_ids", *(f"before_{k}" for k in range(count - 1, 0, -1))]
    digits = [_DIGIT.format(k=k, rest=rest) for k, rest in zip(range(count - 1, 0, -1), rests, strict=False)]
    steps = [_STEP.format(k=k, before=k - 1) for k in range(1, count)]
    return "".join([_DIGITS, *digits, _FIRST, *steps, _LAST.format(last=count - 1)])


def _table(cores: Sequence[Any], num_embeddings: int, padding_idx: int | None) -> tuple[Sequence[Any], dict[str, int]]:
    return list(cores), {
        "format_version": FORMAT_VERSION,
        "num_embeddings": num_embeddings,
        "padding_idx": -1 if padding_idx is None else padding_idx,
    }


TT = OnnxMethod(
    name=PackedTT.method,
    node=nodes.TT,
    operators=tt.TT,
    table=_table,
    body=_body,
    parts="cores",
    remedy="factorise all tables in the same way",
    num_rows="\n  num_rows = Constant <value_int: int = @num_embeddings> ()\n",
)
ORDERED_TT = replace(
    TT,
    node=nodes.ORDERED_TT,
    operators=tt.ORDERED,
    table=lambda cores, row_order, *scalars: _table([*cores, row_order], *scalars),
    around=Around(TT, row_order.PLAIN_USES, lambda count: count - 1, row_order.body),
)
METHODS = (TT, ORDERED_TT)
