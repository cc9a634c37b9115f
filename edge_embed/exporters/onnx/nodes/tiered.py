"""Nodes of tiered tables: ``Tiered...``, with the tensors of each tier after the map."""

from edge_embed.errors import located
from edge_embed.exporters.onnx.nodes.dpq import table_shape
from edge_embed.exporters.onnx.nodes.schema import Attributes, NodeSchema, Specs
from edge_embed.packed.tier_map import NUM_TIERS
from edge_embed.packed.tiered_shape import TENSORS, TIERED_TENSORS, TieredShape, tensor_name

OF_TIER = ("bits", "num_codes", "num_groups")
"""Attributes of each tier, with its number behind: ``bits_0``."""


def _shape(attributes: Attributes, tensors: Specs) -> TieredShape:
    tiers = []
    for tier in range(NUM_TIERS):
        own = {name: attributes[f"{name}_{tier}"] for name in OF_TIER}
        with located(f"tier {tier}"):
            tiers.append(table_shape(own, {name: tensors[tensor_name(tier, name)] for name in TENSORS}))
    return TieredShape(tuple(tiers), tensors["tier_map"].shape[0] > 0)


TIERED = NodeSchema(
    "Tiered",
    lambda count: TIERED_TENSORS,
    (
        "format_version",
        "num_embeddings",
        *(f"{name}_{tier}" for tier in range(NUM_TIERS) for name in OF_TIER),
        "padding_idx",
    ),
    _shape,
)
NODES = (TIERED,)
