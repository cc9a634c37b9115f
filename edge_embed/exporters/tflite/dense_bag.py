"""Bags of a dense table in operators that the converter supports: a matrix [B, N] marks the ids of each bag."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_MEAN, _MAX = 1, 2


def _bag(
    weight: Tensor,
    ids: Tensor,
    offsets: Tensor,
    _scale_grad_by_freq: bool = False,
    mode: int = 0,
    _sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor]:
    """Return the bags, the only one of the four results of ``aten::embedding_bag`` that models use."""
    inside = ids_of_bags(ids, offsets, include_last_offset)
    if padding_idx is not None:
        inside = inside & (ids != padding_idx % len(weight))
    rows = torch.nn.functional.embedding(ids, weight)
    if mode == _MAX:
        most = torch.where(inside[:, :, None], rows, torch.finfo(rows.dtype).min).amax(1)
        return (torch.where(inside.any(1, keepdim=True), most, 0.0),)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    bags = inside.to(rows.dtype) @ rows
    if mode == _MEAN:
        bags = bags / inside.to(rows.dtype).sum(1, keepdim=True).clamp(min=1.0)
    return (bags,)


def ids_of_bags(ids: Tensor, offsets: Tensor, include_last_offset: bool) -> Tensor:
    """Return the matrix [B, N] that marks the ids of each bag."""
    ends = offsets[1:] if include_last_offset else torch.cat([offsets[1:], torch.full_like(offsets[:1], len(ids))])
    begins = offsets[:-1] if include_last_offset else offsets
    places = torch.arange(len(ids), dtype=offsets.dtype)
    return (places >= begins[:, None]) & (places < ends[:, None])


_ATEN = torch.ops.aten

DENSE_BAGS: dict[Callable[..., Any], Callable[..., Any]] = {
    _ATEN.embedding_bag.default: _bag,
    _ATEN.embedding_bag.padding_idx: _bag,
}
"""Functions in place of torch operators, by operator."""
