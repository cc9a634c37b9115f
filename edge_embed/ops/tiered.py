"""Tiered tables: rows from the tier of each id, and packing. `edge_embed.packed.tier_map` has the formulas.

Shapes: tier t of three has n_t rows, codes [n_t, row_bytes] and values [G, K, s]; scales of rows have no elements in a
tier without them. B ids.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from edge_embed.ops.autograd_state import is_transformed
from edge_embed.ops.dpq import pack_scaled, scaled_rows
from edge_embed.ops.ids import check_id_range
from edge_embed.ops.operators import define, finish_rows
from edge_embed.packed.tier_map import BITS, BLOCK, NUM_TIERS
from edge_embed.packed.tiered import PackedTiered


def rows(
    ids: Tensor,
    tier_map: Tensor,
    tier_ranks: Tensor,
    codes: list[Tensor],
    values: list[Tensor],
    row_scale_codes: list[Tensor],
    row_scales: list[Tensor],
    num_groups: list[int],
    padding_idx: int | None,
) -> Tensor:
    """Return rows [*ids, d] in float32.

    Raises:
        IdOutOfRangeError: for ids below 0 or from n on.
    """
    check_id_range(ids, sum(len(each) for each in codes))
    flat = ids.reshape(-1).long()  # [B]
    tier, place = _places(flat, tier_map, tier_ranks, [len(each) for each in codes])
    found = values[0].new_zeros(len(flat), num_groups[0] * values[0].shape[2], dtype=torch.float32)  # [B, d]
    stored = list(zip(codes, values, row_scale_codes, row_scales, num_groups, strict=True))
    found = join_rows(found, tier, [place], lambda number, own: _rows_of_tier(own, *stored[number]))
    return finish_rows(found, ids, padding_idx)


def join_rows(found: Tensor, tier: Tensor, columns: Sequence[Tensor], rows_of: Callable[..., Tensor]) -> Tensor:
    """Return rows of all tiers in one tensor, differentiable.

    Args:
        found: zeros [B, d], in the dtype of the result.
        tier: tier of each row, int64 [B].
        columns: numbers of each row that ``rows_of`` takes, int64 [B] each: the place in the tier, and others.
        rows_of: (tier, numbers [m] of each column) -> rows [m, d].
    """
    # The number of rows of a tier would make an accelerator wait, and is unknown while ``torch.compile`` traces and
    # under ``torch.vmap``. There, every tier computes B rows, and numbers of rows that it does not have are 0.
    is_known = tier.device.type == "cpu" and not torch.compiler.is_compiling() and not is_transformed(tier)
    for number in range(NUM_TIERS):
        own = tier == number
        if is_known:
            at = own.nonzero().squeeze(1)
            rows = rows_of(number, *(column[at] for column in columns))
            found = found.index_copy(0, at, rows.to(found.dtype))
        else:
            rows = rows_of(number, *(column.masked_fill(~own, 0) for column in columns))
            found = torch.where(own.unsqueeze(1), rows.to(found.dtype), found)
    return found


def _rows_of_tier(
    places: Tensor, codes: Tensor, values: Tensor, row_scale_codes: Tensor, row_scales: Tensor, num_groups: int
) -> Tensor:
    return scaled_rows(places, codes, values, None, *_scales(row_scale_codes, row_scales), num_groups, 0, None)


def _scales(codes: Tensor, scales: Tensor) -> tuple[Tensor | None, Tensor | None]:
    return (codes, scales) if scales.numel() else (None, None)


def _places(ids: Tensor, tier_map: Tensor, tier_ranks: Tensor, sizes: list[int]) -> tuple[Tensor, Tensor]:
    """Return the tier of int64 ids [B], and the row in it: int64 [B] each."""
    ends = torch.tensor(sizes, device=ids.device).cumsum(0)
    if not tier_map.numel():
        tier = torch.searchsorted(ends, ids, right=True)
        return tier, ids - (ends - torch.tensor(sizes, device=ids.device))[tier]
    block, at = ids // BLOCK, (ids % BLOCK).unsqueeze(1)
    shifts = torch.arange(0, 8, BITS, device=ids.device)
    stored = tier_map.index_select(0, block).long().unsqueeze(2)  # [B, 64, 1]
    every = ((stored >> shifts) & ((1 << BITS) - 1)).flatten(1)  # [B, 256], the tiers of the block
    tier = every.gather(1, at)  # [B, 1]
    before = ((every == tier) & (torch.arange(BLOCK, device=ids.device) < at)).sum(1)
    return tier.squeeze(1), tier_ranks.index_select(0, block).long().gather(1, tier).squeeze(1) + before


def pack(
    tier_map: Tensor,
    tier_ranks: Tensor,
    codes: list[Tensor],
    values: list[Tensor],
    row_scale_codes: list[Tensor],
    row_scales: list[Tensor],
    num_groups: list[int],
    padding_idx: int | None,
) -> PackedTiered:
    """Pack a table, given as the arguments of `rows`.

    Raises:
        BadInputError: if they do not fit each other.
    """
    tiers = []
    for stored in zip(codes, values, row_scale_codes, row_scales, num_groups, strict=True):
        code, value, scale_codes, scales, groups = stored
        tiers.append(pack_scaled(code, value, None, *_scales(scale_codes, scales), groups, 0, None))
    if not tier_map.numel():
        return PackedTiered(tuple(tiers), padding_idx=padding_idx)
    return PackedTiered(tuple(tiers), tier_map.cpu().numpy(), tier_ranks.cpu().numpy(), padding_idx)


TIERED = define(
    "tiered",
    "Tensor tier_map, Tensor tier_ranks, Tensor[] codes, Tensor[] values, Tensor[] row_scale_codes, "
    "Tensor[] row_scales, int[] num_groups, int? padding_idx",
    rows,
    size=lambda tier_map, tier_ranks, codes, values, scale_codes, scales, num_groups, padding_idx: (
        sum(each.shape[0] for each in codes),
        num_groups[0] * values[0].shape[2],
    ),
    like=lambda tier_map, tier_ranks, codes, values, scale_codes, scales, *rest: scales[0],
)

FORMS = (TIERED,)
