"""Rounding of probabilities to bfloat16 that keeps their sum, 1.

    q = r(p)    e = 1 - sum of q    q_i += s_i  where (p_i - q_i) e > 0 and |S_i - s_i / 2| < |e|

r rounds to nearest. s_i is the step from q_i to the other bfloat16 number beside p_i, a unit in the last place (ULP).
S_i is the sum of s_j over the j <= i with (p_j - q_j) e > 0, which were rounded in the wrong direction: the first ones
take the other number. They are enough, because each s is at least twice its part of e. So the error falls to half a
ULP, which is 2^-10 at most if each p is below 1/2.

A p above 1/2 has a larger ULP and stays rounded to nearest. The others first take its error beyond 2^-11, in
proportion: (0.995, 0.005) becomes (0.996, 0.0044). They change by 2^-9 - 2^-11 in all, at most.

Rows with |e| up to 2^-10 after rounding to nearest stay as they are.

Shapes: probabilities of rows [*, n].
"""

import torch
from torch import Tensor
from torch.nn.functional import hardshrink

from edge_embed.ops.training_library import are_plain

_MOST_ERROR = 2.0**-10
_LEAST_SHARED = 2.0**-11  # so others keep a quarter of p, and their own errors are half of an e above _MOST_ERROR
_BLOCK = 1 << 15  # numbers whose intermediate results stay in the cache


def rounded(p: Tensor) -> Tensor:
    """Return float32 probabilities [*, n] in bfloat16; gradients pass as through a conversion."""
    nearest = p.bfloat16()
    if p.numel() == 0:
        return nearest
    if torch.compiler.is_compiling():
        return (p + _OPERATOR(p.detach())).bfloat16()  # type: ignore[no-any-return]
    is_off = _error(nearest.detach()).abs() > _MOST_ERROR  # [*, 1]; False for NaN
    if not are_plain(p):  # or on a GPU, where the selection of rows would wait
        return (p + _correction(p.detach()) * is_off).bfloat16()
    ids = is_off.reshape(-1).nonzero().squeeze(-1)
    return _corrected(p.reshape(-1, p.shape[-1]), ids).reshape(p.shape).bfloat16() if len(ids) else nearest


# Opaque to torch.compile, which would drop conversions to bfloat16 and back.
_OPERATOR = torch.library.custom_op(
    "edge_embed::sum_kept_correction",
    lambda p: (rounded(p).float() - p).contiguous(),
    mutates_args=(),
    schema="(Tensor p) -> Tensor",
)
_OPERATOR.register_fake(lambda p: p.new_empty(p.shape))


def _corrected(rows: Tensor, ids: Tensor) -> Tensor:
    known, size = rows.detach(), max(1, _BLOCK // rows.shape[-1])
    corrections = known.new_empty(len(ids), rows.shape[-1])
    for block, correction in zip(ids.split(size), corrections.split(size), strict=True):
        correction.copy_(_correction(known[block]))
    return rows.index_add(0, ids, corrections)


def _error(q: Tensor) -> Tensor:
    return 1 - q.sum(-1, keepdim=True, dtype=torch.float32)


def _nearest(p: Tensor) -> Tensor:
    return p.bfloat16().float()


def _correction(p: Tensor) -> Tensor:
    """Return the difference of the rounded numbers from p. Signs are faster than conditions, and numbers in place."""
    shared = _shared(p)
    q = _nearest(shared)
    error = _error(q)
    direction = error.sign()
    is_wrong = (shared - q).mul_(direction).sign_().clamp(min=0)
    other = _nearest(shared.mul_(1 + direction * 2**-8))  # which adds at least half a ULP, and less than one
    steps = other.sub_(q).mul_(is_wrong)
    is_moved = (error - steps.cumsum(-1)).add_(steps, alpha=0.5).mul_(direction).sign_().clamp(min=0)
    return steps.mul_(is_moved).add_(q).sub_(p)


def _shared(p: Tensor) -> Tensor:
    """Return p where a number above 1/2 is rounded, and the others have its error beyond `_LEAST_SHARED`."""
    large = hardshrink(p, 0.5)  # p above 1/2, else 0
    rounded_large = _nearest(large)
    lost = (large - rounded_large).sum(-1, keepdim=True)
    small = p - large
    more = (lost - lost.clamp(-_LEAST_SHARED, _LEAST_SHARED)) / small.sum(-1, keepdim=True).clamp(min=_LEAST_SHARED)
    return small.mul_(1 + more).add_(rounded_large)
