"""Nodes of tiered tables: ``Tiered...``, with the tensors of each tier after the map."""

from edge_embed.exporters.onnx.nodes.schema import Attributes, NodeSchema, Specs, check_ranks, value_type
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.tier_map import NUM_TIERS
from edge_embed.packed.tiered_shape import TENSORS, TIERED_TENSORS, TieredShape, tensor_name

OF_TIER = ("bits", "num_codes", "num_groups")
"""Attributes of each tier, with its number behind: ``bits_0``."""


def _shape(attributes: Attributes, tensors: Specs) -> TieredShape:
    tiers = []
    for tier in range(NUM_TIERS):
        names = {name: tensor_name(tier, name) for name in TENSORS}
        ranks = {"codes": 2, "values": 3, "row_scale_codes": 1, "row_scales": 1}
        check_ranks(tensors, {names[name]: rank for name, rank in ranks.items()})
        values, groups = tensors[names["values"]], attributes[f"num_groups_{tier}"]
        shared = values.shape[0] == 1 and groups != 1
        sizes = tensors[names["codes"]].shape[0], values.shape[2] * groups, attributes[f"num_codes_{tier}"], groups
        scales = tensors[names["row_scales"]].shape[0]
        tiers.append(DPQShape(*sizes, shared, value_type(values), num_row_scales=scales))
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
