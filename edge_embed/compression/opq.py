"""DPQ of rows that are rotated first: optimised product quantisation (OPQ).

    E_i = P_i R          P: product-quantised (`edge_embed.compression.dpq`)     R: `edge_embed.compression.rotation`

The rotation belongs to what the model does with rows: a product [d] x [d, d] after a look-up or before a head, or a
part of the weight of the next layer.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from edge_embed.compression import dpq
from edge_embed.compression.dense import DenseTable, Weight, row_weights, table_size
from edge_embed.compression.fitted import Fitted
from edge_embed.compression.kept import NOTHING, Kept
from edge_embed.compression.processes import ALONE, Arrays, Processes
from edge_embed.compression.rotation import find_rotation


def fit(
    weight: Weight,
    num_codes: int,
    num_groups: int,
    padding_idx: int | None = None,
    *,
    counts: Tensor | None = None,
    trainable: bool = False,
    runs: int = 3,
    seed: int = 0,
    kept: Kept = NOTHING,
    on_block: Callable[[int], None] = lambda rows: None,
    processes: Processes = ALONE,
) -> Fitted:
    """A `DPQEmbedding` and a rotation that give rows near to those of a dense table.

    Arguments and errors are those of `dpq.fit`; the rotation does not learn.

    Returns:
        Both, float32 on the CPU.
    """
    n, dim = table_size(weight)
    shape = dpq.without_numbers(n, dim, num_codes, num_groups, padding_idx=padding_idx)
    weights = row_weights(counts, n, shape.padding_idx)
    table = DenseTable(weight, shape.padding_idx, processes=processes)
    own = kept.of_table(table, weights, "opq", num_groups)

    def find() -> Arrays:
        return {"rotation": find_rotation(table, weights, num_groups).numpy()}

    rotation = torch.from_numpy(own("rotation", find)["rotation"])
    given: dict[str, Any] = {"counts": counts, "trainable": trainable, "runs": runs, "seed": seed}
    given |= {"kept": kept, "on_block": on_block, "processes": processes}
    return Fitted(dpq.fit(weight, num_codes, num_groups, padding_idx, rotation=rotation, **given), rotation)
