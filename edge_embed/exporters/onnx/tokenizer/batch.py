"""Conversion of the concatenated ids of all texts to rows of one length: limits, ids around each text, padding.

    flat int64 [T], lengths int64 [N]  ->  ids int64 [N, W], mask int64 [N, W]

Every place of a row gets its id from one pool, ``padding, before, after, flat``, by an index. A row has at least one
place, so that texts without ids still form an array that models accept.
"""

from edge_embed.exporters.onnx.tokenizer.source import Batching

_BODY = """
  {kept}
  {begins}
  around = Constant <value_int: int = {around}> ()
  totals = Add (kept, around)
  batch_one = Constant <value_ints: ints = [1]> ()
  at_least_one = Concat <axis: int = 0> (totals, batch_one)
  longest = ReduceMax <keepdims: int = 0> (at_least_one)
  least = Constant <value_int: int = {least}> ()
  wide = Max (longest, least)
  multiple = Constant <value_int: int = {multiple}> ()
  multiple_less_one = Constant <value_int: int = {multiple_less_one}> ()
  wider = Add (wide, multiple_less_one)
  multiples = Div (wider, multiple)
  width = Mul (multiples, multiple)
  zero = Constant <value_int: int = 0> ()
  one = Constant <value_int: int = 1> ()
  columns = Range (zero, width, one)
  last = Constant <value_ints: ints = [1]> ()
  totals_column = Unsqueeze (totals, last)
  kept_column = Unsqueeze (kept, last)
  begins_column = Unsqueeze (begins, last)
  {place}
  before = Constant <value_int: int = {before}> ()
  in_text = Sub (place, before)
  of_text_base = Constant <value_int: int = {text_base}> ()
  of_text_begin = Add (begins_column, of_text_base)
  of_text = Add (of_text_begin, in_text)
  after_base = Constant <value_int: int = {after_base}> ()
  behind_text = Sub (in_text, kept_column)
  of_after = Add (behind_text, after_base)
  of_before = Add (place, one)
  is_text = Less (in_text, kept_column)
  is_before = Less (place, before)
  from_text = Where (is_text, of_text, of_after)
  from_anywhere = Where (is_before, of_before, from_text)
  not_left = GreaterOrEqual (place, zero)
  not_right = Less (place, totals_column)
  is_id = And (not_left, not_right)
  index = Where (is_id, from_anywhere, zero)
  fixed_pool = Constant <value_ints: ints = [{pool}]> ()
  pool = Concat <axis: int = 0> (fixed_pool, flat)
  ids = Gather (pool, index)
  mask = Cast <to: int = 7> (is_id)
"""


def batch_body(batching: Batching) -> str:
    """Return nodes in the textual syntax of ONNX, from ``flat`` and ``lengths`` to ``ids`` and ``mask``."""
    before, around = len(batching.before), len(batching.before) + len(batching.after)
    if batching.max_length is None:
        kept = "kept = Identity (lengths)"
    else:
        kept = f"room = Constant <value_int: int = {batching.max_length - around}> ()\n  kept = Min (lengths, room)"
    begins = "axis_0 = Constant <value_int: int = 0> ()\n  {} = CumSum <exclusive: int = 1> (lengths, axis_0)"
    if batching.truncated_side == "left":
        begins = begins.format("all_begins") + "\n  lost = Sub (lengths, kept)\n  begins = Add (all_begins, lost)"
    place = "place = Unsqueeze (columns, zero_axis)"
    if batching.padded_side == "left":
        place = place.replace("place =", "column =")
        place += "\n  shift = Sub (width, totals_column)\n  place = Sub (column, shift)"
    return _BODY.format(
        kept=kept,
        begins=begins.format("begins"),
        around=around,
        least=max(1, batching.length or 1),
        multiple=max(1, batching.multiple),
        multiple_less_one=max(1, batching.multiple) - 1,
        place="zero_axis = Constant <value_ints: ints = [0]> ()\n  " + place,
        before=before,
        text_base=1 + around,
        after_base=1 + before,
        pool=", ".join(map(str, (batching.pad_id, *batching.before, *batching.after))),
    )
