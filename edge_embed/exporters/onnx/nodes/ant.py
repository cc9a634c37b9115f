"""Nodes of ANT: ``ANT...``."""

from edge_embed.exporters.onnx.nodes.schema import Attributes, NodeSchema, Specs, check_ranks, value_type
from edge_embed.packed.ant_shape import ANTShape

TENSORS = ("row_offsets", "anchor_ids", "weights", "weight_scale", "anchors")


def _shape(attributes: Attributes, tensors: Specs) -> ANTShape:
    check_ranks(tensors, {"row_offsets": 1, "weights": 1, "anchors": 2})
    weights, anchors = tensors["weights"], tensors["anchors"]
    num_embeddings, (num_anchors, dim) = tensors["row_offsets"].shape[0] - 1, anchors.shape
    return ANTShape(num_embeddings, dim, num_anchors, weights.shape[0], weights.dtype, value_type(anchors))


ANT = NodeSchema("ANT", lambda count: TENSORS, ("format_version", "padding_idx"), _shape)
NODES = (ANT,)
