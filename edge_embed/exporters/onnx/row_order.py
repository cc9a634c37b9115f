"""Tables with a row order in ONNX: nodes ``edge_embed::<X>Ordered...`` around the plain node of each use.

    ids, <tensors>, row_order int32 [n]     ->  rows [*ids, d]     row(id) = plain_row(row_order[id])
    hidden [*, d], <tensors>, row_order     ->  logits [*, n]      logits[*, id] = plain_logits[*, row_order[id]]

No library has kernels for these nodes, so a runtime always runs their bodies. The plain nodes in them run as kernels of
a registered library, or as bodies. The padding row keeps its place, so both nodes have the same attributes. Negative
ids, which would count from the end, are mapped beyond the last one. Top-k has all logits in memory: the plain node
would order equal values by the lowest row, not by the lowest id.
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

# Numbers are gathered as elements, which takes a runtime a sixth of the time of ``Gather``. A session that folded
# ``nothing_1d`` would keep an order for every state if sizes are fixed.
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
"""The use of the plain table that the body of each use calls."""


def body(use: Use, node: str, tensors: tuple[str, ...], own: tuple[str, ...]) -> str:
    """Return the nodes of the function; see `edge_embed.exporters.onnx.method.Around.body`."""
    return _BODIES[use].format(node=node, tensors=", ".join(tensors), nothing=NOTHING.format(tensor="by_row"))
