"""Sparse activations in TFLite: arithmetic that the converter expresses by builtin operators, without sorting.

    scores [*, n], alpha [*, 1]  ->  probabilities [*, n]

The formulas and their edges are those of the portable bodies (`edge_embed.exporters.onnx.entmax`), in float32 with a
fixed number of steps: TFLite has no loop that every runtime supports. Newton's steps double the right digits once they
are near; each of them leaves out the scores at and below tau.

    p = (1 + c y)^(1 / c) = exp(log1p(c y) / c), log1p(x) = x log(u) / (u - 1) with u = 1 + x       y = x + mu

Top-k sparsemax takes the largest score that is left, the first of equal ones, k times: the converter sorts for top-k.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from edge_embed.ops.entmax import MOST_ALPHA, OPERATORS

_NEWTON_STEPS = 16
_BISECTIONS = 30
_LEAST_C = 2.0**-22


def _lower(scores: Tensor) -> Tensor:
    wide = scores.float()
    return wide - wide.amax(-1, keepdim=True)  # [*, n]; NaN for plus infinity and rows without a finite score


def _shares(parts: Tensor, lower: Tensor, scores: Tensor) -> Tensor:
    # Some kernels of TFLite drop NaN from maxima and comparisons, so it is looked for.
    has_nan = lower.isnan().float().sum(-1, keepdim=True) > 0
    shares = parts / parts.sum(-1, keepdim=True)
    return torch.where(has_nan, torch.nan, shares).to(scores.dtype)


def _positive(difference: Tensor) -> Tensor:
    return torch.where(difference < 0, 0.0, difference)  # keeps NaN


def sparsemax(scores: Tensor) -> Tensor:
    """Return sparsemax by Newton's steps."""
    lower = _lower(scores)
    return _shares(_positive(lower - _tau_of_sparsemax(lower)), lower, scores)


def topk_sparsemax(scores: Tensor, k: int) -> Tensor:
    """Return sparsemax of the k largest scores."""
    lower = _lower(scores)
    left, top = lower, torch.full_like(lower, -torch.inf)
    for _ in range(k):
        is_largest = left == left.amax(-1, keepdim=True)
        is_first = is_largest & (is_largest.float().cumsum(-1) == 1)
        left, top = torch.where(is_first, -torch.inf, left), torch.where(is_first, lower, top)
    return _shares(_positive(top - _tau_of_sparsemax(top)), lower, scores)


def _tau_of_sparsemax(lower: Tensor) -> Tensor:
    tau = torch.full_like(lower[..., :1], -1.0)
    for _ in range(_NEWTON_STEPS):
        is_in = (lower > tau).float()
        tau = tau + ((is_in * (lower.clamp(min=-2) - tau)).sum(-1, keepdim=True) - 1) / is_in.sum(-1, keepdim=True)
    return tau


def entmax15(scores: Tensor) -> Tensor:
    """Return 1.5-entmax by Newton's steps."""
    half = _lower(scores) / 2
    tau = torch.full_like(half[..., :1], -1.0)
    for _ in range(_NEWTON_STEPS):
        above = _positive(half - tau)
        root = above.square().sum(-1, keepdim=True).sqrt()
        tau = tau + (root - 1) * root / above.sum(-1, keepdim=True)
    return _shares(_positive(half - tau).square(), half, scores)


def alpha_entmax(scores: Tensor, alpha: Tensor) -> Tensor:
    """Return alpha-entmax by bisection."""
    lower, alpha = _lower(scores), alpha.float()
    is_known = (alpha >= 1) & (alpha <= MOST_ALPHA)
    c = torch.where(is_known, (alpha - 1).clamp(min=_LEAST_C), torch.nan)
    mu = (-1 / c).clamp(min=-20.0)
    width = -mu
    parts = lower
    for _ in range(_BISECTIONS):
        width = width / 2
        middle = mu + width
        parts = _power(c * (lower + middle), c)
        mu = torch.where(parts.sum(-1, keepdim=True) < 1, middle, mu)
    return _shares(parts, lower, scores)


def _power(x: Tensor, c: Tensor) -> Tensor:
    """Return (1 + x)^(1 / c), 0 for x of -1 or less."""
    is_out = x <= -1
    inner = torch.where(is_out, 0.0, x)
    u = 1 + inner
    is_one = u == 1
    logarithm = torch.where(is_one, inner, inner * u.log() / torch.where(is_one, 1.0, u - 1))
    return torch.where(is_out, 0.0, (logarithm / c).exp())


REPLACEMENTS: dict[object, Callable[..., Tensor]] = {
    OPERATORS["sparsemax"]: sparsemax,
    OPERATORS["entmax15"]: entmax15,
    OPERATORS["alpha_entmax"]: alpha_entmax,
    OPERATORS["topk_sparsemax"]: topk_sparsemax,
}
"""Functions of plain torch operators, by opaque operator."""
