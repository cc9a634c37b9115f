"""Tables with an order of their own in ONNX: nodes ``edge_embed::<X>Ordered...`` around the plain node of each use.

    ids, <tensors>, row_order int32 [n]     ->  rows [*ids, d]     row(id) = plain_row(row_order[id])
    hidden [*, d], <tensors>, row_order     ->  logits [*, n]      logits[*, id] = plain_logits[*, row_order[id]]

No library has kernels for these nodes: a runtime always takes their bodies, and for the plain nodes in them the kernels
of a library that is registered, else their bodies. The padding row keeps its place, so both nodes have the same
attributes. Negative ids, which would wrap around, are sent behind the last one. Top-k has all logits in memory: the
plain node would break ties by the lowest row, not by the lowest id.
"""

from collections.abc import Mapping

from edge_embed.packed.form import Use

_PLACED = """
  zero = Constant <value_int: int = 0> ()
  num_rows = Constant <value_int: int = @num_embeddings> ()
  wide_ids = Cast <to: int = 7> (ids)
  negative = Less (wide_ids, zero)
  safe_ids = Where (negative, num_rows, wide_ids)
  row_ids = Gather (row_order, safe_ids)
"""

# Numbers are gathered as elements, for which a runtime takes a sixth of the time of ``Gather``. nothing_1d is 0, but a
# session cannot know: else, where sizes are fixed, it would keep an order for every state.
_BY_ID = """
  by_row = {node} (hidden, {tensors})
  zero_1d = Constant <value_ints: ints = [0]> ()
  one_1d = Constant <value_ints: ints = [1]> ()
  minus_1 = Constant <value_ints: ints = [-1]> ()
  every_logit = Reshape (by_row, minus_1)
  first_logit = Slice (every_logit, zero_1d, one_1d, zero_1d)
  is_number = Equal (first_logit, first_logit)
  numbers = Cast <to: int = 7> (is_number)
  num_numbers = ReduceSum <keepdims: int = 1> (numbers, zero_1d)
  nothing_1d = Min (num_numbers, zero_1d)
  shape = Shape (by_row)
  shape_now = Add (shape, nothing_1d)
  places = Expand (row_order, shape_now)
  by_id = GatherElements <axis: int = -1> (by_row, places)
"""

# scores: [*, n], rounded before and after the bias is added, as in a graph that adds it to the logits: a Reshape keeps
# optimisers from dropping both casts. A bias that is left out has no numbers, which do not fit the logits: the size of
# whole_bias is not known before it runs.
_TOP = """
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

_BODIES: Mapping[Use, str] = {
    "rows": _PLACED + "  rows = {node} (row_ids, {tensors})",
    "bag": _PLACED + "  bags = {node} (row_ids, offsets, sample_weights, {tensors})",
    "logits": _BY_ID + "  logits = Identity (by_id)",
    "topk": _BY_ID + _TOP,
}


def plain_use(use: Use) -> Use:
    """The use of the plain table that the body of a use calls."""
    return "logits" if use == "topk" else use


def body(use: Use, node: str, tensors: tuple[str, ...]) -> str:
    """Nodes of the function.

    Args:
        use: of the table.
        node: the plain operator of `plain_use`, and its attributes.
        tensors: its inputs after the leading ones.
    """
    return _BODIES[use].format(node=node, tensors=", ".join(tensors))
