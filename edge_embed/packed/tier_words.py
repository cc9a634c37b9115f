"""Format of a tier in a few words, from its sizes: ``float16``, ``int4``, ``DPQ K=16 D=25`` or ``16 shared rows``."""

from edge_embed.packed.dpq_shape import DPQShape


def numbers_rows(tier: DPQShape) -> bool:
    """Return whether the codes of a tier number its rows, which are its values: floats, not shared."""
    return tier.num_groups == 1 and not tier.num_row_scales and tier.num_codes == max(2, tier.num_embeddings)


def tier_words(tier: DPQShape) -> str:
    """Return the format of the rows of a tier."""
    if tier.num_row_scales:
        return f"int{tier.bits}"
    if numbers_rows(tier):
        return tier.value_type
    if tier.num_groups > 1:
        return f"DPQ K={tier.num_codes} D={tier.num_groups}"
    return f"{tier.num_codes} shared rows"


def plan_words(tiers: tuple[DPQShape, ...]) -> str:
    """Return all tiers in one line: ``1,250 rows int8, 8,750 rows DPQ K=16 D=25``."""
    parts = ((f"{tier.num_embeddings:,} row{'s' * (tier.num_embeddings > 1)}", tier_words(tier)) for tier in tiers)
    return ", ".join(f"{rows} {'as ' * words.endswith('rows')}{words}" for rows, words in parts)
