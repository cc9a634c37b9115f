"""Nodes of tiered tables: ``Tiered...``, with the tensors of each tier after the map."""

from edge_embed.exporters.onnx.nodes.schema import Attributes, NodeSchema, Specs, check_ranks, value_type
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.tiered_shape import MAX_TIERS, MIN_TIERS, NO_MAP, TENSORS, TieredShape, tensor_name

OF_TIER = ("bits", "num_codes", "num_groups")
"""Attributes of each tier, with its number behind: ``bits_0``; 0 for a tier that the table lacks."""


def num_tiers(count: int) -> int:
    """Return the number of tiers of a node with a number of tensors."""
    return min(max((count - len(NO_MAP)) // len(TENSORS), MIN_TIERS), MAX_TIERS)


def _tensors(count: int) -> tuple[str, ...]:
    return (*NO_MAP, *(tensor_name(tier, name) for tier in range(num_tiers(count)) for name in TENSORS))


def _shape(attributes: Attributes, tensors: Specs) -> TieredShape:
    tiers = []
    for tier in range(num_tiers(len(tensors))):
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
    _tensors,
    (
        "format_version",
        "num_embeddings",
        *(f"{name}_{tier}" for tier in range(MAX_TIERS) for name in OF_TIER),
        "padding_idx",
    ),
    _shape,
)
NODES = (TIERED,)
