"""Attention whose probabilities can be exactly zero.

    out = sum_j p_j v_j        p = entmax_alpha(scale q k^T + mask)

A query whose keys are all masked has p = 0. In inference on float32 CPU tensors, kernels compute everything at once and
read no value whose probability is zero.

Source: "Adaptively Sparse Transformers" (Correia, Niculae and Martins, EMNLP 2019), section 3.

Shapes: batch B, attention heads H, G of keys and values (G divides H), T queries, S keys, widths d and e.
"""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from edge_embed.errors import BadInputError
from edge_embed.ops import attention_kernels
from edge_embed.ops.entmax import entmax, entmax_unchecked
from edge_embed.ops.logits import is_in_autocast
from edge_embed.ops.training_library import serves


def attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    alpha: float | Tensor,
    mask: Tensor | None = None,
    *,
    scale: float | None = None,
    dropout: float = 0.0,
    need_weights: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Return the mean of values [B, H, T, e] by probabilities of alpha-entmax, and those [B, H, T, S] if needed.

    Args:
        query: [B, H, T, d].
        key: [B, G, S, d].
        value: [B, G, S, e].
        alpha: from 1 (softmax) to 4, or a tensor of those of the attention heads [H], whose values are not checked.
        mask: 4-D, broadcasts to [B, H, T, S]: bool, where False excludes a key, or numbers to add to the scores.
        scale: factor of the scores; 1 / sqrt(d) by default.
        dropout: probability to set a probability to zero; the others grow.
        need_weights: whether to return the probabilities, after dropout.
    """
    heads = query.shape[1]
    if isinstance(alpha, Tensor) and (alpha.ndim != 1 or len(alpha) not in (1, heads)):
        raise BadInputError(f"alpha: got shape {list(alpha.shape)}, expected [{heads}], one for each attention head")
    scale = 1 / math.sqrt(query.shape[-1]) if scale is None else scale
    if not dropout and _kernels_serve(query, key, value, alpha, mask):
        alphas = alpha if isinstance(alpha, Tensor) else query.new_tensor([alpha])
        return attention_kernels.attention(query, key, value, alphas, mask, scale, need_weights)
    key, value = _repeated(key, query), _repeated(value, query)
    if isinstance(alpha, float | int) and alpha == 1 and not need_weights:
        return F.scaled_dot_product_attention(query, key, value, mask, dropout, scale=scale), None
    scores = torch.matmul(query * scale, key.transpose(-1, -2))  # [B, H, T, S]
    probabilities = _probabilities(scores, alpha, mask)
    if dropout:
        probabilities = F.dropout(probabilities, dropout)
    return torch.matmul(probabilities, value), probabilities if need_weights else None


def _kernels_serve(query: Tensor, key: Tensor, value: Tensor, alpha: float | Tensor, mask: Tensor | None) -> bool:
    tensors = [query, key, value, *(each for each in (alpha, mask) if isinstance(each, Tensor))]
    if torch.is_grad_enabled() and any(each.requires_grad for each in tensors):
        return False
    if not isinstance(alpha, Tensor) and alpha == 1:  # torch has kernels of its own for softmax
        return False
    return serves(*(each for each in tensors if each.dtype != torch.bool)) and not attention_kernels.is_empty(
        query, key
    )


def _repeated(tensor: Tensor, query: Tensor) -> Tensor:
    """Return keys or values [B, H, S, *], one for each attention head."""
    times = query.shape[1] // tensor.shape[1]
    return tensor if times == 1 else tensor.repeat_interleave(times, 1)


def _probabilities(scores: Tensor, alpha: float | Tensor, mask: Tensor | None) -> Tensor:
    if mask is None or not scores.shape[-1]:
        return _entmax(scores, alpha)
    is_out = ~mask if mask.dtype == torch.bool else mask == -math.inf
    scores = scores if mask.dtype == torch.bool else scores + mask
    has_none = is_out.all(-1, keepdim=True)  # [B, H, T, 1]: of these rows, entmax would be NaN
    scores = scores.masked_fill(is_out, -math.inf).masked_fill(has_none, 0)  # also where a masked key has NaN
    return _entmax(scores, alpha).masked_fill(has_none, 0)


def _entmax(scores: Tensor, alpha: float | Tensor) -> Tensor:
    if scores.dtype == torch.bfloat16 and not is_in_autocast(scores.device.type):
        return _entmax(scores.float(), alpha).bfloat16()  # to nearest: the product with values is rounded as much
    if isinstance(alpha, Tensor):
        return entmax_unchecked(scores, alpha[:, None, None])
    return entmax(scores, alpha)
