"""Capture of bags that are rows of a matrix of ids, with as many bags as the matrix has rows.

For ids [B, L], ``functional.embedding_bag`` makes offsets 0, L, ... below B L, so there are B L / L of them. In a
captured program this size differs from B. The batch of the bags would then differ from that of the other inputs, and a
model would accept different sizes for both.
"""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

_plain = functional.embedding_bag
_TAKES = inspect.signature(_plain)


def _by_row(*args: Any, **options: Any) -> Tensor:
    given = _TAKES.bind(*args, **options).arguments
    ids, weights = given["input"], given.get("per_sample_weights")
    is_matrix = ids.dim() == 2 and not ids.is_nested and not ids.is_floating_point()
    if not is_matrix or given.get("offsets") is not None or (weights is not None and weights.shape != ids.shape):
        return _plain(**given)
    batch, length = ids.shape
    given["input"] = ids.reshape(-1)
    given["offsets"] = torch.arange(batch + 1, dtype=ids.dtype, device=ids.device) * length
    given["include_last_offset"] = True
    if weights is not None:
        given["per_sample_weights"] = weights.reshape(-1)
    return _plain(**given)


@contextmanager
def bags_of_rows() -> Iterator[None]:
    """Patch ``functional.embedding_bag``, and so ``nn.EmbeddingBag``, to give B bags for ids [B, L]."""
    functional.embedding_bag = _by_row
    try:
        yield
    finally:
        functional.embedding_bag = _plain
