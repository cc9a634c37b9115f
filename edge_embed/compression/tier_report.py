"""Report of the tiers of a compressed table: sizes, shares of the counts, and errors.

relative error    sqrt(sum_i w_i |C_i - E_i|^2 / sum_i w_i |E_i|^2)        w_i: counts, other counts, or 1
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.fitting.dense_table import DenseTable
from edge_embed.packed.tier_words import plan_words, tier_words
from edge_embed.packed.tiered import PackedTiered
from edge_embed.report.results.tiers import Tier, TierPlan

_NUMBERS = 1 << 20  # of a block


def tier_plan(
    table: DenseTable, packed: PackedTiered, counts: Tensor | None, origin: str, others: Tensor | None = None
) -> TierPlan:
    """Return the report of a tiered table.

    Args:
        table: dense rows [n, d].
        packed: the same table, tiered.
        counts: frequency of each row, [n], or None for equal ones.
        origin: origin of these frequencies.
        others: frequencies in other data, [n].
    """
    tiers = packed.tiers
    weightings = [counts, None] if others is None else [counts, None, others]
    sums = np.zeros((len(weightings), len(tiers), 3))  # error, length and weight, by weighting and tier
    for place in table.places(table.num_embeddings, numbers=_NUMBERS):
        ids = np.arange(place.start, place.stop)
        tier_of, _ = packed.places(ids)
        dense = table.block(place)
        squares = dense.square().sum(1).numpy()
        errors = (torch.from_numpy(packed.rows_float64(ids)) - dense).square().sum(1).numpy()
        for number, given in enumerate(weightings):
            weights = np.ones(len(ids)) if given is None else given[place].double().numpy()
            for at, of_rows in enumerate((errors, squares, np.ones(len(ids)))):
                sums[number, :, at] += np.bincount(tier_of, weights * of_rows, len(tiers))
    shape = packed.shape
    shares = sums[..., 2] / sums[..., 2].sum(1, keepdims=True)
    parts = zip(shape.tiers, shares[0], sums[1], strict=True)
    totals = sums.sum(1)
    return TierPlan(
        plan_words(shape.tiers),
        tuple(
            Tier(tier.num_embeddings, tier_words(tier), tier.nbytes, float(share), _relative(own))
            for tier, share, own in parts
        ),
        shape.map_bytes,
        origin,
        _relative(totals[1]),
        None if others is None else _relative(totals[2]),
        None if others is None else float(1 - shares[2, -1]),
    )


def _relative(sums: NDArray[np.float64]) -> float:
    error, length, _ = sums
    return float(np.sqrt(error / length)) if length else 0.0
