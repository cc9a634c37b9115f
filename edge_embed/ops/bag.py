"""Bags: reduces rows to one vector for each bag, as ``nn.EmbeddingBag`` does.

    sum_b = sum_i w_i E[ids_i]      mean_b = sum_i E[ids_i] / count_b      max_b = max_i E[ids_i]

The positions i run from offsets[b] to offsets[b + 1] - 1, without those of the padding row. Empty bags are zero.
"""

import torch
from torch import Tensor
from torch.nn import functional

from edge_embed.errors import BadInputError

MODES = ("sum", "mean", "max")


def check_offsets(offsets: Tensor, count: int) -> None:
    """Raise `BadInputError` unless int64 [B + 1] ``offsets`` run from 0 up to ``count`` and never fall.

    The check covers only CPU tensors and is skipped while ``torch.compile`` traces, like
    `edge_embed.ops.ids.check_id_range`.
    """
    if torch.compiler.is_compiling() or offsets.device.type != "cpu":
        return
    if offsets.numel() == 0:
        raise BadInputError("offsets: got none, expected at least the end of the last bag (include_last_offset)")
    if int(offsets[0]) != 0 or int(offsets[-1]) != count:
        got = f"got {int(offsets[0])} and {int(offsets[-1])}"
        raise BadInputError(f"bags must begin at 0 and end at {count}, the number of ids: {got}")
    falling = (offsets.diff() < 0).nonzero()
    if len(falling):
        at = int(falling[0])
        got = f"got {int(offsets[at])}, then {int(offsets[at + 1])}"
        raise BadInputError(f"offsets must not decrease: {got} (bag {at})")


def reduce_bags(
    rows: Tensor, ids: Tensor, offsets: Tensor, sample_weights: Tensor | None, mode: str, padding_idx: int | None
) -> Tensor:
    """Reduce rows [N, d] of ids [N] to [B, d]; differentiable in rows and sample weights.

    Args:
        rows: one row for each position.
        ids: ids of the rows, which identify the padding row.
        offsets: int64 [B + 1]: the start of each bag, and N.
        sample_weights: [N] with mode ``"sum"``, or None.
        mode: one of `MODES`.
        padding_idx: id that is ignored, or None.
    """
    positions = torch.arange(rows.shape[0], device=rows.device)  # [N]
    if padding_idx is not None:  # torch skips one index: an additional row at the end
        positions = torch.where(ids == padding_idx, rows.shape[0], positions)
        rows = functional.pad(rows, (0, 0, 0, 1))  # [N + 1, d]
    return functional.embedding_bag(
        positions,
        rows,
        offsets,
        mode=mode,
        per_sample_weights=sample_weights,
        include_last_offset=True,
        padding_idx=None if padding_idx is None else -1,
    )
