"""Locations in a packed tiered table: those of its tiers, and the rows of a byte of the map."""

from edge_embed.packed.tier_map import BITS, BLOCK, NUM_TIERS
from edge_embed.packed.tiered import PackedTiered
from edge_embed.validation.dpq import DPQ
from edge_embed.validation.method import ValidationMethod


def _locate(packed: PackedTiered, tensor: str, offset: int, bit: int) -> str:
    if tensor == "tier_map":
        return f"tier of row {(8 * offset + bit) // BITS}"
    if tensor == "tier_ranks":
        block, tier = divmod(offset // 4, NUM_TIERS)
        return f"rank of rows from {block * BLOCK} in tier {tier}"
    _, number, name = tensor.split("_", 2)
    return f"tier {number}, {DPQ.locate(packed.tiers[int(number)], name, offset, bit)}"


def _comparisons(packed: PackedTiered) -> int:
    return max(map(DPQ.comparisons, packed.tiers))


def _column(packed: PackedTiered, index: int) -> str:
    return f"column {index}"


TIERED = ValidationMethod(PackedTiered.method, True, _locate, lambda packed: 1, _comparisons, _column)
