"""Tables with an order of their own in ONNX: nodes ``edge_embed::<X>Ordered...`` around the plain node of each use.

    ids, <tensors>, row_order int32 [n]     ->  rows [*ids, d]     row(id) = plain_row(row_order[id])
    hidden [*, d], <tensors>, row_order     ->  logits [*, n]      logits[*, id] = plain_logits[*, row_order[id]]

No library has kernels for these nodes: a runtime always takes their bodies, and for the plain nodes in them the kernels
of a library that is registered, else their bodies. The padding row keeps its place, so both nodes have the same
attributes. Negative ids, which would wrap around, are sent behind the last one. Top-k has all logits in memory: the
plain node would break ties by the lowest row, not by the lowest id.
"""

from collections.abc import Mapping

from edge_embed.exporters.onnx import topk
from edge_embed.exporters.onnx.folding_barrier import NOTHING
from edge_embed.packed.packed_form import Use

_PLACED = """
  zero = Constant <value_int: int = 0> ()
  num_rows = Constant <value_int: int = @num_embeddings> ()
  wide_ids = Cast <to: int = 7> (ids)
  negative = Less (wide_ids, zero)
  safe_ids = Where (negative, num_rows, wide_ids)
  row_ids = Gather (row_order, safe_ids)
"""

# Numbers are gathered as elements, for which a runtime takes a sixth of the time of ``Gather``. A session that knew
# ``nothing_1d`` would keep an order for every state where sizes are fixed.
_BY_ID = """
  by_row = {node} (hidden, {tensors})
{nothing}  shape = Shape (by_row)
  shape_now = Add (shape, nothing_1d)
  places = Expand (row_order, shape_now)
  by_id = GatherElements <axis: int = -1> (by_row, places)
"""

_BODIES: Mapping[Use, str] = {
    "rows": _PLACED + "  rows = {node} (row_ids, {tensors})",
    "bag": _PLACED + "  bags = {node} (row_ids, offsets, sample_weights, {tensors})",
    "logits": _BY_ID + "  logits = Identity (by_id)",
    "topk": _BY_ID + topk.OF_LOGITS,
}


PLAIN_USES: Mapping[Use, Use] = {"rows": "rows", "bag": "bag", "logits": "logits", "topk": "logits"}
"""For each use that of the plain table that its body calls."""


def body(use: Use, node: str, tensors: tuple[str, ...], own: tuple[str, ...]) -> str:
    """Nodes of the function, as `edge_embed.exporters.onnx.method.Around.body`."""
    return _BODIES[use].format(node=node, tensors=", ".join(tensors), nothing=NOTHING.format(tensor="by_row"))
