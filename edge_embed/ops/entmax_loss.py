"""Fenchel-Young losses of alpha-entmax: zero once the right class leads by a margin.

    L(z, y) = H(p) + p . z - z_y        p = alpha-entmax(z), H(p) = sum_i (p_i - p_i^alpha) / (alpha (alpha - 1))
    dL/dz = p - e_y

Source: "Sparse Sequence-to-Sequence Models" (Peters, Niculae and Martins, ACL 2019), section 3. alpha = 1 is the cross
entropy, alpha = 2 the sparsemax loss ("From Softmax to Sparsemax", Martins and Astudillo, ICML 2016).

Shapes: scores [*, n] of n classes, targets [*].
"""

import torch
from torch import Tensor
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.ops.entmax import check_alpha, entmax, has_values

_REDUCTIONS = ("mean", "sum", "none")


def sparsemax_loss(scores: Tensor, target: Tensor, ignore_index: int = -100, reduction: str = "mean") -> Tensor:
    """Return `entmax_loss` with alpha = 2, the loss of `edge_embed.sparsemax`."""
    return entmax_loss(scores, target, 2.0, ignore_index, reduction)


def entmax_loss(
    scores: Tensor, target: Tensor, alpha: float = 1.5, ignore_index: int = -100, reduction: str = "mean"
) -> Tensor:
    """Return the loss whose gradient is `edge_embed.entmax` less the target, in place of the cross entropy.

    Args:
        scores: floating-point ``[*, n]``, the classes last, unlike ``cross_entropy``.
        target: classes, int64 ``[*]``.
        alpha: that of the probabilities, from 1 to 4.
        ignore_index: target of rows that do not count.
        reduction: ``"mean"`` over the rows that count, ``"sum"``, or ``"none"`` for ``[*]`` with 0 for other rows.

    Returns:
        A number, or ``[*]``; in the dtype of the scores, float32 for narrower ones.

    Raises:
        BadInputError: for scores that are not floating-point, targets that are not int64 ``[*]`` or out of range, an
            alpha that is not from 1 to 4, or an unknown reduction.
    """
    check_alpha(alpha)
    if reduction not in _REDUCTIONS:
        raise BadInputError(f"reduction: got {reduction!r:.80}, expected one of {', '.join(_REDUCTIONS)}")
    counted = _counted(scores, target, ignore_index)
    # torch.compile with inductor, torch 2.13, gives wrong gradients for scores that are not contiguous.
    wide = scores.to(torch.promote_types(scores.dtype, torch.float32)).contiguous()
    classes = target.where(counted, 0)
    if alpha == 1:
        losses = functional.cross_entropy(wide.movedim(-1, 1) if wide.ndim > 1 else wide, classes, reduction="none")
    else:
        losses = _losses(wide, classes, alpha)
    losses = losses.where(counted, 0)
    if reduction == "none":
        return losses
    return losses.sum() / (counted.sum() if reduction == "mean" else 1)


def _losses(scores: Tensor, classes: Tensor, alpha: float) -> Tensor:
    p = entmax(scores, alpha)
    lower = scores - scores.amax(-1, keepdim=True)
    is_in = p != 0  # elsewhere, a second derivative of the power and a score of minus infinity would give NaN
    powers = torch.where(is_in, torch.where(is_in, p, 1) ** alpha, 0)
    entropy = (p - powers).sum(-1) / (alpha * (alpha - 1))
    products = (p * torch.where(is_in, lower, 0)).sum(-1)
    return entropy + products - lower.gather(-1, classes.unsqueeze(-1)).squeeze(-1)


def _counted(scores: Tensor, target: Tensor, ignore_index: int) -> Tensor:
    """Return which rows count, bool [*]; raise `BadInputError` for tensors that do not fit."""
    is_array = isinstance(scores, Tensor) and scores.layout == torch.strided and not scores.is_nested
    if not is_array:
        got = "a sparse or nested tensor" if isinstance(scores, Tensor) else f"{scores!r:.80}"
        raise BadInputError(f"scores: got {got}, expected a dense tensor [*, n]")
    if not scores.is_floating_point() or scores.itemsize < 2 or not scores.ndim or not scores.shape[-1]:
        got = f"a tensor of {scores.dtype} {list(scores.shape)}"
        raise BadInputError(f"scores: got {got}, expected 16-bit or wider floats [*, n], n of at least 1")
    rows = list(scores.shape[:-1])
    if not isinstance(target, Tensor) or target.dtype != torch.int64 or list(target.shape) != rows:
        got = f"a tensor of {target.dtype} {list(target.shape)}" if isinstance(target, Tensor) else f"{target!r:.80}"
        raise BadInputError(f"target: got {got}, expected classes as an int64 tensor {rows}")
    if not isinstance(ignore_index, int) or isinstance(ignore_index, bool) or not -(2**63) <= ignore_index < 2**63:
        raise BadInputError(f"ignore_index: got {ignore_index!r:.80}, expected an integer of 64 bits")
    counted = target != ignore_index
    if has_values(scores) and has_values(target):
        wrong = target[counted & ((target < 0) | (target >= scores.shape[-1]))]
        if wrong.numel():
            last = scores.shape[-1] - 1
            raise BadInputError(f"target: got class {wrong[0].item()}, expected 0 to {last}, or {ignore_index}")
    return counted
