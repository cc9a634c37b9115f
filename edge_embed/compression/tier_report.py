"""Report of the tiers of a compressed table: sizes, shares of the counts, and errors.

relative error    sqrt(sum_i w_i |C_i - E_i|^2 / sum_i w_i |E_i|^2)        w_i: counts, other counts, or 1
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.fitting.dense_table import DenseTable, row_weights
from edge_embed.fitting.row_counts import ORDER
from edge_embed.packed.tier_words import plan_words, tier_words
from edge_embed.packed.tiered import PackedTiered
from edge_embed.report.results.tiers import Tier, TierPlan


def tier_plan(
    table: DenseTable, packed: PackedTiered, counts: Tensor, is_order: bool, others: Tensor | None = None
) -> TierPlan:
    """Return the report of a tiered table.

    Args:
        table: dense rows [n, d].
        packed: the same table, tiered.
        counts: frequency of each row, [n].
        is_order: whether the frequencies are assumed from the order of the rows.
        others: frequencies in other data, [n].

    Raises:
        BadInputError: counts are not such numbers.
    """
    n = table.num_embeddings
    weightings = {"own": counts, "equal": None, "other": others}
    weights = {
        name: row_weights(given, n, packed.padding_idx).numpy()
        for name, given in weightings.items()
        if name != "other" or given is not None
    }
    tier_of = np.empty(n, np.intp)
    sums = np.zeros((len(weights), len(packed.tiers), 2))  # error and length, by weighting and tier
    for place in table.places(n):
        ids = np.arange(place.start, place.stop)
        tier_of[place] = packed.places(ids)[0]
        dense = table.block(place)
        squares = dense.square().sum(1).numpy()
        errors = (torch.from_numpy(packed.rows_float64(ids)) - dense).square().sum(1).numpy()
        for number, each in enumerate(weights.values()):
            for at, of_rows in enumerate((errors, squares)):
                sums[number, :, at] += np.bincount(tier_of[place], each[place] * of_rows, len(packed.tiers))
    shape = packed.shape
    own = np.bincount(tier_of, weights["own"], len(packed.tiers)) / weights["own"].sum()
    tiers = tuple(
        Tier(tier.num_embeddings, tier_words(tier), tier.nbytes, float(share), _relative(sums[1, number]))
        for number, (tier, share) in enumerate(zip(shape.tiers, own, strict=True))
    )
    totals = sums.sum(1)
    last = len(packed.tiers) - 1
    return TierPlan(
        plan_words(shape.tiers),
        tiers,
        shape.map_bytes,
        ORDER if is_order else "given",
        _relative(totals[1]),
        None if others is None else _relative(totals[2]),
        None if others is None else float(weights["other"][tier_of < last].sum() / weights["other"].sum()),
    )


def _relative(sums: NDArray[np.float64] | Sequence[float]) -> float:
    error, length = sums
    return float(np.sqrt(error / length)) if length else 0.0
