"""Tables with row scales in ONNX: nodes ``edge_embed::<X>Scaled...`` around plain nodes, which do the work.

    ids, <tensors>, row_scale_codes uint8 [n], row_scales float32 [S]     ->  rows float32 [*ids, d]
    hidden [*, d], <tensors>, row_scale_codes, row_scales                 ->  logits [*, n]

    row(id) = row_scales[row_scale_codes[id]] * plain_row(id)[: d]        logits[*, id] = the same scale * plain_logits

The operator library has kernels for these nodes, which give the same rows. A library without them, or none, runs the
bodies. The plain nodes in them then run as kernels of a registered library, or as bodies. Rows without scales have
these nodes if the last group is narrower. Then the two tensors are omitted, ``unused_columns`` of each plain row are
cut off, and hidden states get zeros in their place. Bodies of bags are computed from rows.
"""

from collections.abc import Mapping

from edge_embed.exporters.onnx import topk
from edge_embed.exporters.onnx.folding_barrier import NOTHING
from edge_embed.packed.packed_form import Use

PLAIN_USES: Mapping[Use, Use] = {"rows": "rows", "logits": "logits", "topk": "logits"}
"""The use of the plain table that the body of each use calls; bags call none."""

# Ids are not checked again, because the plain node refuses ids out of range.
_ROWS = """
  plain_rows = {node} (ids, {tensors})
  zero = Constant <value_int: int = 0> ()
  minus_1 = Constant <value_ints: ints = [-1]> ()
  unused = Constant <value_int: int = @unused_columns> ()
  is_narrow = Greater (unused, zero)
  narrow_rows = If (is_narrow) <
    then_branch = cut () => (cut_rows) {{
      zero_1d = Unsqueeze (zero, minus_1)
      unused_1d = Unsqueeze (unused, minus_1)
      end = Neg (unused_1d)
      cut_rows = Slice (plain_rows, zero_1d, end, minus_1)
    }},
    else_branch = whole () => (whole_rows) {{
      whole_rows = Identity (plain_rows)
    }}
  >
"""
_SCALED_ROWS = """
  wide_rows = Cast <to: int = 1> (narrow_rows)
  code = Gather (row_scale_codes, ids)
  place = Cast <to: int = 6> (code)
  scale = Gather (row_scales, place)
  scale_column = Unsqueeze (scale, minus_1)
  rows = Mul (wide_rows, scale_column)
"""

# padding of ``Pad``: number of zeros before and after each axis. The casts are in the branches: before them, ONNX
# Runtime 1.31 removes a cast without effect, and warns that it cannot rename the values that the branches read.
_LOGITS = """
{nothing}
  zero = Constant <value_int: int = 0> ()
  unused = Constant <value_int: int = @unused_columns> ()
  is_narrow = Greater (unused, zero)
  states = If (is_narrow) <
    then_branch = fill () => (filled) {{
      axes = Shape (hidden)
      axes_shape = Shape (axes)
      both = Add (axes_shape, axes_shape)
      other_axes = Sub (both, one_1d)
      no_padding = Expand (zero, other_axes)
      unused_1d = Unsqueeze (unused, zero_1d)
      padding = Concat <axis: int = 0> (no_padding, unused_1d)
      wide_hidden = Cast <to: int = 1> (hidden)
      filled = Pad (wide_hidden, padding)
    }},
    else_branch = keep_states () => (same) {{
      same = Cast <to: int = 1> (hidden)
    }}
  >
  plain_logits = {node} (states, {tensors})
"""
_SCALED_LOGITS = """
  num_codes_1d = Shape (row_scale_codes)
  codes_now = Add (num_codes_1d, nothing_1d)
  every_code = Expand (row_scale_codes, codes_now)
  places = Cast <to: int = 6> (every_code)
  scales = Gather (row_scales, places)
  wide_logits = Mul (plain_logits, scales)
"""
_LIKE_HIDDEN = """
  by_id = CastLike ({logits}, hidden)
  shape = Shape (by_id)
"""


def body(use: Use, node: str, tensors: tuple[str, ...], own: tuple[str, ...]) -> str:
    """Return the nodes of the function; see `edge_embed.exporters.onnx.method.Around.body`."""
    if use == "rows":
        text = _ROWS + (_SCALED_ROWS if own else "  rows = Identity (narrow_rows)")
    else:
        text = _LOGITS + (_SCALED_LOGITS if own else "") + _LIKE_HIDDEN
        text += topk.OF_LOGITS if use == "topk" else "  logits = Identity (by_id)"
    logits = "wide_logits" if own else "plain_logits"
    nothing = NOTHING.format(tensor="hidden")
    return text.format(node=node, tensors=", ".join(tensors), nothing=nothing, logits=logits)
