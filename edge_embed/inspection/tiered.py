"""Form of tiered tables in a saved program."""

from torch import Tensor

from edge_embed.inspection.dpq import scaled
from edge_embed.inspection.table_forms import Forms, Sizes, TableForm
from edge_embed.ops import tiered
from edge_embed.packed.tiered_shape import TieredShape


def _stored(
    tier_map: Tensor,
    tier_ranks: Tensor,
    codes: list[Tensor],
    values: list[Tensor],
    row_scale_codes: list[Tensor],
    row_scales: list[Tensor],
    num_groups: list[int],
    padding_idx: int | None,
) -> Sizes:
    tiers = tuple(
        scaled(code, value, None, of_rows, scales, groups, 0, None)[0]
        for code, value, of_rows, scales, groups in zip(
            codes, values, row_scale_codes, row_scales, num_groups, strict=True
        )
    )
    return TieredShape(tiers, tier_map.shape[0] > 0), padding_idx


FORMS: Forms = {tiered.TIERED: TableForm("frozen", _stored)}
