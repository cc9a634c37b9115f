"""Form of tiered tables in a saved program."""

from torch import Tensor

from edge_embed.inspection.table_forms import Forms, Sizes, TableForm, value_type
from edge_embed.ops import tiered
from edge_embed.packed.dpq_shape import DPQShape
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
    tiers = []
    for code, value, scales, groups in zip(codes, values, row_scales, num_groups, strict=True):
        stored, num_codes, width = value.shape
        sizes = len(code), width * groups, num_codes, groups, stored != groups
        tiers.append(DPQShape(*sizes, value_type(value), num_row_scales=len(scales)))
    return TieredShape(tuple(tiers), tier_map.shape[0] > 0), padding_idx


FORMS: Forms = {tiered.TIERED: TableForm("frozen", _stored)}
