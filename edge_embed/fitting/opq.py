"""DPQ of rotated rows: optimised product quantisation (OPQ).

    E_i = P_i R          P: product-quantised (`edge_embed.fitting.dpq`)     R: `edge_embed.fitting.rotation`

The model applies the rotation to rows: as a product [d] x [d, d] after a lookup or before an output layer, or folded
into the weight of the next layer.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from edge_embed.fitting import dpq
from edge_embed.fitting.checkpoints import NOTHING, Kept
from edge_embed.fitting.dense_table import DenseTable, Weight, row_weights, table_size
from edge_embed.fitting.fitted_table import Fitted
from edge_embed.fitting.processes import ALONE, Arrays, Processes
from edge_embed.fitting.rotation import find_rotation
from edge_embed.fitting.setting import FittingMethod


def fit(
    weight: Weight,
    num_codes: int,
    num_groups: int,
    padding_idx: int | None = None,
    *,
    counts: Tensor | None = None,
    kept: Kept = NOTHING,
    processes: Processes = ALONE,
    **options: Any,
) -> Fitted:
    """Fit a `DPQEmbedding` and a rotation to a dense table.

    Arguments, including ``options``, and errors are those of `dpq.fit`. The rotation is not trainable.

    Returns:
        Layer and rotation, float32 on the CPU.
    """
    n, dim = table_size(weight)
    padding_idx = dpq.without_numbers(n, dim, num_codes, num_groups, padding_idx=padding_idx).padding_idx
    weights = row_weights(counts, n, padding_idx)
    table = DenseTable(weight, padding_idx, processes=processes)

    def find() -> Arrays:
        return {"rotation": find_rotation(table, weights, num_groups).numpy()}

    rotation = torch.from_numpy(kept.of_table(table, weights, "opq", num_groups)("rotation", find)["rotation"])
    given: dict[str, Any] = {"counts": counts, "kept": kept, "processes": processes, "rotation": rotation}
    return Fitted(dpq.fit(weight, num_codes, num_groups, padding_idx, **given, **options), rotation)


OPQ = FittingMethod(
    fit, dpq.SIZES, dpq.TYPES, partial(dpq.within, method="opq"), rotates=True, has_groups=True, draft=dpq.DRAFT
)
