"""Output layers: hidden E^T from blocks of rows, so that the dense table is never materialised.

logits[*, i] = <hidden[*], E[i]>
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.ops.pairwise import product

# Elements of a block of rows: large enough for an efficient product with few calls, small enough for the cache.
_BLOCK_ELEMENTS = 1 << 20


def row_blocks(num_embeddings: int, embedding_dim: int) -> Iterator[tuple[int, int]]:
    """Yield the first id and the end (exclusive) of consecutive blocks of rows."""
    step = max(1, _BLOCK_ELEMENTS // embedding_dim)
    for begin in range(0, num_embeddings, step):
        yield begin, min(begin + step, num_embeddings)


def check_hidden(hidden: Tensor, embedding_dim: int) -> None:
    """Raise `BadInputError` unless ``hidden`` is a float tensor [*, d]."""
    if not isinstance(hidden, Tensor) or not hidden.is_floating_point():
        kind = hidden.dtype if isinstance(hidden, Tensor) else type(hidden).__name__
        raise BadInputError(f"hidden states must be a float tensor, got {kind}")
    if hidden.ndim == 0 or hidden.shape[-1] != embedding_dim:
        got = f"got {list(hidden.shape)}"
        raise BadInputError(f"hidden states must be [*, {embedding_dim}], the width of the table: {got}")


def in_autocast_type(hidden: Tensor) -> Tensor:
    """Convert hidden states to the dtype of an active ``torch.autocast``, in which ``nn.Linear`` computes.

    As in ``nn.Linear``, float64 stays float64.
    """
    if not isinstance(hidden, Tensor) or not hidden.is_floating_point() or hidden.dtype == torch.float64:
        return hidden
    device = hidden.device.type
    return hidden.to(torch.get_autocast_dtype(device)) if is_in_autocast(device) else hidden


def is_in_autocast(device: str) -> bool:
    """Return whether ``torch.autocast`` is active for a type of device; some, such as meta, have no autocast."""
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)


def without_autocast(device: torch.device) -> AbstractContextManager[Any]:
    """Return a context in which ``torch.autocast`` changes no dtype; some devices, such as meta, have no autocast."""
    is_known = torch.amp.is_autocast_available(device.type)
    return torch.autocast(device.type, enabled=False) if is_known else nullcontext()


def block_logits(hidden: Tensor, rows: Callable[[Tensor], Tensor], num_embeddings: int, embedding_dim: int) -> Tensor:
    """Return logits [*, n] in the dtype of ``hidden`` [*, d]; ``rows`` returns [block, d] for ids [block]."""
    check_hidden(hidden, embedding_dim)
    logits = hidden.new_empty(*hidden.shape[:-1], num_embeddings)
    for begin, end, scores in logit_blocks(hidden, rows, num_embeddings, embedding_dim):
        logits[..., begin:end] = scores
    return logits


def logit_blocks(
    hidden: Tensor, rows: Callable[[Tensor], Tensor], num_embeddings: int, embedding_dim: int
) -> Iterator[tuple[int, int, Tensor]]:
    """Yield first id, end (exclusive) and logits [*, block] of consecutive blocks of rows, as in `block_logits`."""
    for begin, end in row_blocks(num_embeddings, embedding_dim):
        block = rows(torch.arange(begin, end, device=hidden.device))  # [block, d]
        yield begin, end, product(hidden, block.to(hidden.dtype).t())
