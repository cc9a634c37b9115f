"""Probabilities that can be exactly zero: alpha-entmax, with softmax, 1.5-entmax and sparsemax as cases.

    p = argmax over the simplex of  p . z + H(p)        H(p) = sum_i (p_i - p_i^alpha) / (alpha (alpha - 1))
    p_i = exp_c(z_i - max z + mu)                       exp_c(y) = max(0, 1 + c y)^(1 / c), c = alpha - 1
    dz = s (dp - (sum of s dp) / (sum of s))            s_i = p_i^(2 - alpha) where p_i > 0, else 0

mu is the number at which p sums to 1. alpha = 1 is softmax (exp_0 = exp), alpha = 2 is sparsemax. The derivative by
alpha is, over the p above 0 and with l = ln p,

    dp_i / dalpha = (p_i - q_i) / c^2 - (p_i l_i - q_i sum_j p_j l_j) / c        q = s / (sum of s)
                  = p_i (sum_j p_j h_j - h_i - l_i sum_j p_j e_j + e_i sum_j p_j l_j) / (sum of s)

with e = (p^-c - 1) / c and h = (p^-c - 1 + c l) / c^2. The first line is that of the paper; the second one, which is
computed, has no differences of nearly equal numbers near alpha = 1.

Sources: "From Softmax to Sparsemax", Martins and Astudillo, ICML 2016, Algorithm 1. "Sparse Sequence-to-Sequence
Models", Peters, Niculae and Martins, ACL 2019, Algorithm 2 and section 3. "Adaptively Sparse Transformers", Correia,
Niculae and Martins, EMNLP 2019, proposition 1. Top-k sparsemax: "Efficient Marginalization of Discrete and Structured
Latent Variables via Sparsity", Correia et al., NeurIPS 2020.

Shapes: n scores of a row, alpha broadcast to the rows [*, 1].
"""

import math
from numbers import Real
from operator import index
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad

from edge_embed.errors import BadInputError
from edge_embed.ops import entmax_kernels
from edge_embed.ops.logits import is_in_autocast
from edge_embed.ops.opaque_entmax import define, is_opaque
from edge_embed.ops.sum_kept_rounding import rounded
from edge_embed.ops.topk import largest
from edge_embed.ops.training_library import serves

MOST_ALPHA = 4  # beyond, powers of small probabilities leave the range of float32
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def sparsemax(scores: Tensor, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    """Return the point of the simplex that is nearest to the scores along a dimension; differentiable.

    Args:
        scores: floating-point tensor of any shape.
        dim: dimension that sums to 1.
        mask: bool tensor that broadcasts to the shape of ``scores``; False excludes a score.

    Returns:
        Probabilities of the shape and dtype of ``scores``; at least float32 under ``torch.autocast``. Excluded
        scores and those of minus infinity get 0. They are NaN along ``dim`` if any score is NaN or plus infinity, or
        none is above minus infinity.

    Raises:
        BadInputError: for scores that are not floating-point, a dimension that does not exist, or a mask that is not
            bool or does not broadcast to the shape of the scores.
    """
    return _along(scores, dim, mask, 2.0)


def entmax15(scores: Tensor, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    """Return `entmax` with alpha = 1.5, between softmax and sparsemax; arguments and errors as `sparsemax`."""
    return _along(scores, dim, mask, 1.5)


def entmax(scores: Tensor, alpha: float | Tensor = 1.5, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    """Return alpha-entmax of the scores along a dimension; differentiable, also with respect to a tensor ``alpha``.

    Args:
        scores: floating-point tensor of any shape.
        alpha: from 1 to 4: 1 is softmax, 2 is sparsemax, larger ones give more zeros. A tensor broadcasts
            to the shape of ``scores``, with size 1 at ``dim``: [H, 1, 1] has one for each attention head
            of scores [B, H, T, S].
        dim: dimension that sums to 1.
        mask: bool tensor that broadcasts to the shape of ``scores``; False excludes a score.

    Returns:
        Probabilities, as `sparsemax` returns them.

    Raises:
        BadInputError: as `sparsemax`, and for an ``alpha`` that is not from 1 to 4 or has another shape. While
            torch.compile or torch.func record, no values can be seen: probabilities of such an alpha are NaN.
    """
    if not isinstance(alpha, Tensor):
        check_alpha(alpha)
    return _along(scores, dim, mask, alpha)


def topk_sparsemax(scores: Tensor, k: int, dim: int = -1, mask: Tensor | None = None) -> Tensor:
    """Return `sparsemax` over the ``k`` largest scores along a dimension; the other probabilities are 0.

    Of equal scores, the first ones count as the largest.

    Raises:
        BadInputError: as `sparsemax`, and for a ``k`` below 1 or above the number of scores along ``dim``.
    """
    last, dtype = _prepared(scores, dim, mask)
    count, wanted = last.shape[-1], _integer(k)
    if wanted is None or not 1 <= wanted <= count:
        expected = f"an integer from 1 to {count}, the number of scores along dim {dim}"
        raise BadInputError(f"k: got {k!r:.80}, expected {expected}")
    compute = OPERATORS["topk_sparsemax"] if _is_opaque(last) else _of_largest
    return _finished(compute(last, wanted), scores, dim, dtype)


def _of_largest(scores: Tensor, k: int) -> Tensor:
    """Return top-k sparsemax of rows [*, n]."""
    known = scores.detach()
    # TopK of ONNX takes the first of equal ones too.
    ids = known.topk(k)[1] if torch.compiler.is_exporting() else largest(known, k).ids
    highest = known.amax(-1, keepdim=True)
    rest = highest - highest  # 0, or NaN as the whole row
    top = _apply(scores.gather(-1, ids), 2.0)
    return torch.zeros_like(known).scatter(-1, ids, top) + rest


def check_alpha(alpha: object) -> None:
    """Raise `BadInputError` unless alpha is a number from 1 to 4."""
    if not isinstance(alpha, Real) or isinstance(alpha, bool) or not 1 <= alpha <= MOST_ALPHA:  # type: ignore[operator]
        raise BadInputError(f"alpha: got {alpha!r:.80}, expected a number from 1 (softmax) to {MOST_ALPHA}")


def entmax_unchecked(scores: Tensor, alpha: Tensor, mask: Tensor | None = None) -> Tensor:
    """Return `entmax` along the last dimension for an ``alpha`` known to be in range, which takes no look at it."""
    return _along(scores, -1, mask, alpha, looks=False)


def _along(scores: Tensor, dim: int, mask: Tensor | None, alpha: float | Tensor, looks: bool = True) -> Tensor:
    if mask is None and not isinstance(alpha, Tensor) and _are_plain_rows(scores, dim):  # most calls, and the fastest
        return _of_plain_rows(scores, float(alpha))
    last, dtype = _prepared(scores, dim, mask)
    if isinstance(alpha, Tensor):
        _check_alpha_shape(alpha, scores, dim)
        if looks and has_values(alpha):
            _check_alpha_values(alpha)
        alpha = alpha.to(torch.promote_types(last.dtype, torch.float32))
        alpha = alpha[(None,) * (last.ndim - alpha.ndim)].movedim(dim, -1) if alpha.ndim else alpha.reshape(1)
    return _finished(_apply(last, alpha), scores, dim, dtype)


def _are_plain_rows(scores: Tensor, dim: int) -> bool:
    """Return whether kernels take the scores as they are."""
    return (
        isinstance(scores, Tensor)
        and serves(scores)
        and _kind(scores) == torch.strided
        and scores.is_contiguous()
        and scores.numel() > 0
        and type(dim) is int
        and dim in (-1, scores.ndim - 1)
        and scores.ndim > 0
        and forward_ad._current_level < 0
        and not torch._C._are_functorch_transforms_active()
    )


def _of_plain_rows(scores: Tensor, alpha: float) -> Tensor:
    if scores.requires_grad and torch.is_grad_enabled():
        return _PlainEntmax.apply(scores, alpha)  # type: ignore[no-any-return, no-untyped-call]
    return entmax_kernels.of_plain_rows(scores, alpha)


def _prepared(scores: Tensor, dim: int, mask: Tensor | None) -> tuple[Tensor, torch.dtype]:
    """Return masked scores with the dimension last, and the dtype of the result.

    They are float32 or float64, or float16 for an opaque operator, which computes in float32 itself.
    """
    if not isinstance(scores, Tensor) or scores.dtype not in _DTYPES or _kind(scores) != torch.strided:
        got = f"a {_kind(scores)} tensor of {scores.dtype}" if isinstance(scores, Tensor) else f"{scores!r:.80}"
        raise BadInputError(f"scores: got {got}, expected a dense tensor of float16, bfloat16, float32 or float64")
    ndim, place = max(scores.ndim, 1), _integer(dim)
    if place is None or not -ndim <= place < ndim:
        expected = f"an integer from {-ndim} to {ndim - 1}"
        raise BadInputError(f"dim: got {dim!r:.80}, expected {expected} for scores {list(scores.shape)}")
    if has_values(scores):
        scores = scores.resolve_neg()  # kernels and torch.autograd.Function take no lazy negation
    if mask is not None:
        scores = scores.masked_fill(~_checked_mask(mask, scores), -math.inf)
    wide, dtype = scores.to(torch.promote_types(scores.dtype, torch.float32)), scores.dtype
    if is_in_autocast(scores.device.type):
        dtype = wide.dtype
    elif is_opaque() and dtype == torch.float16:
        wide = scores
    return (wide.movedim(dim, -1) if wide.ndim else wide.reshape(1)), dtype


def _kind(tensor: Tensor) -> object:
    return "nested" if tensor.is_nested else tensor.layout


def _finished(probabilities: Tensor, scores: Tensor, dim: int, dtype: torch.dtype) -> Tensor:
    if dtype == torch.bfloat16 and not torch.compiler.is_exporting():
        probabilities = rounded(probabilities)
    if scores.ndim and dim in (-1, scores.ndim - 1):  # no view, which torch would not let change in place
        return probabilities.to(dtype)
    placed = probabilities.movedim(-1, dim) if scores.ndim else probabilities.reshape(())
    return placed.to(dtype, memory_format=torch.contiguous_format, copy=True)


def _checked_mask(mask: Tensor, scores: Tensor) -> Tensor:
    expected = f"expected a bool tensor that broadcasts to {list(scores.shape)}, the shape of the scores"
    if not isinstance(mask, Tensor) or mask.dtype != torch.bool:
        got = f"a tensor of {mask.dtype}" if isinstance(mask, Tensor) else f"{mask!r:.80}"
        raise BadInputError(f"mask: got {got}, {expected}; True keeps a score")
    if not _broadcasts(mask.shape, scores.shape):
        raise BadInputError(f"mask: got shape {list(mask.shape)}, {expected}")
    return mask


def _check_alpha_shape(alpha: Tensor, scores: Tensor, dim: int) -> None:
    rows = list(scores.shape)
    if rows:
        rows[dim] = 1
    if not alpha.is_floating_point() or not _broadcasts(alpha.shape, rows):
        got = f"a tensor of {alpha.dtype} {list(alpha.shape)}"
        raise BadInputError(f"alpha: got {got}, expected a floating-point tensor that broadcasts to {rows}")


def _check_alpha_values(alpha: Tensor) -> None:
    known = alpha.detach()
    is_right = (known >= 1) & (known <= MOST_ALPHA)
    if not is_right.all():
        wrong = known[~is_right]
        raise BadInputError(f"alpha: got {wrong[0].item():g}, expected numbers from 1 (softmax) to {MOST_ALPHA}")


def has_values(tensor: Tensor) -> bool:
    """Return whether the values of a tensor can be looked at: not while torch records, nor on the meta device."""
    if torch.compiler.is_compiling():  # which cannot trace the next call
        return False
    return not (torch._C._functorch.is_functorch_wrapped_tensor(tensor) or tensor.is_meta)


def _integer(value: object) -> int | None:
    """Return an integer of Python, NumPy or torch's shapes as it is, and None for anything else."""
    try:
        return None if isinstance(value, bool) else index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def _broadcasts(shape: tuple[int, ...] | list[int], to: tuple[int, ...] | list[int]) -> bool:
    return len(shape) <= len(to) and all(
        size in (1, wanted) for size, wanted in zip(reversed(shape), reversed(to), strict=False)
    )


def _apply(scores: Tensor, alpha: float | Tensor) -> Tensor:
    """Return the probabilities of rows [*, n]; alpha is a number or [*, 1]."""
    if torch.compiler.is_exporting() and _is_opaque(scores):
        return _recorded(scores, alpha)
    if scores.numel() == 0:
        return scores.clone()
    if torch.compiler.is_exporting():
        return defined(scores, alpha)
    known = None if isinstance(alpha, Tensor) else alpha
    alphas = alpha if isinstance(alpha, Tensor) else scores.new_tensor([alpha])
    if torch.compiler.is_compiling():  # which supports no forward mode
        return _Entmax.apply(scores, alphas, known)  # type: ignore[no-any-return, no-untyped-call]
    is_learning = torch.is_grad_enabled() and (scores.requires_grad or alphas.requires_grad)
    if is_learning or forward_ad._current_level >= 0 or not (has_values(scores) and has_values(alphas)):
        return _ForwardModeEntmax.apply(scores, alphas, known)  # type: ignore[no-any-return, no-untyped-call]
    return _probabilities(scores, alphas, known)


def _is_opaque(scores: Tensor) -> bool:
    """Return whether to record one operator; nodes of exported files take no float64."""
    return is_opaque() and scores.dtype != torch.float64


def _recorded(scores: Tensor, alpha: float | Tensor) -> Tensor:
    if isinstance(alpha, Tensor):
        return OPERATORS["alpha_entmax"](scores, alpha)  # type: ignore[no-any-return]
    if alpha == 1:
        return scores.softmax(-1)
    if alpha in _EXACT:
        return OPERATORS[_EXACT[alpha]](scores)  # type: ignore[no-any-return]
    return OPERATORS["alpha_entmax"](scores, scores.new_full((1,), alpha, dtype=torch.float32))  # type: ignore[no-any-return]


def _probabilities(scores: Tensor, alpha: Tensor, known: float | None) -> Tensor:
    if torch.compiler.is_compiling():
        return _OPERATOR(scores, alpha, known)  # type: ignore[no-any-return]
    return _computed(scores, alpha, known)


def _computed(scores: Tensor, alpha: Tensor, known: float | None) -> Tensor:
    if serves(scores, alpha):
        return entmax_kernels.probabilities(scores, _alpha_of_rows(scores, alpha))
    return defined(scores, alpha if known is None else known).contiguous()


# Opaque to torch.compile, which would take a minute for the steps of a bisection, and could not use the kernels.
_OPERATOR = torch.library.custom_op(
    "edge_embed::entmax", _computed, mutates_args=(), schema="(Tensor scores, Tensor alpha, float? known) -> Tensor"
)
_OPERATOR.register_fake(lambda scores, alpha, known: scores.new_empty(scores.shape))


class _Entmax(torch.autograd.Function):
    """Probabilities of rows [*, n] with implicit gradients; ``known`` is alpha as a number, if all rows share it."""

    generate_vmap_rule = True

    @staticmethod
    def forward(scores: Tensor, alpha: Tensor, known: float | None) -> Tensor:
        return _probabilities(scores, alpha, known)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1], output)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor | None, None]:
        alpha, p = ctx.saved_tensors
        use_kernels = serves(alpha, p, gradient) and not torch.is_grad_enabled()  # else for a second derivative
        of_scores, of_alpha = _gradients_by_kernels if use_kernels else (_scores_gradient, _alpha_gradient)
        learned = of_alpha(p, alpha, gradient).sum_to_size(alpha.shape) if ctx.needs_input_grad[1] else None
        return of_scores(p, alpha, gradient), learned, None


class _PlainEntmax(torch.autograd.Function):
    """`_Entmax` of rows as they are and a fixed alpha, for which torch and Python have less to do."""

    @staticmethod
    def forward(ctx: Any, scores: Tensor, alpha: float) -> Tensor:
        p = entmax_kernels.of_plain_rows(scores, alpha)
        ctx.alpha = alpha
        ctx.save_for_backward(p)
        return p

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (p,) = ctx.saved_tensors
        if serves(gradient) and not torch.is_grad_enabled():  # else for a second derivative
            return entmax_kernels.gradient_of_plain_rows(p, ctx.alpha, gradient.contiguous()), None
        return _scores_gradient(p, p.new_tensor([ctx.alpha]), gradient), None


class _ForwardModeEntmax(_Entmax):
    """`_Entmax` with derivatives in forward mode; the derivative by scores is symmetric."""

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        ctx.save_for_backward(inputs[1], output)
        ctx.save_for_forward(inputs[1], output)

    @staticmethod
    def jvp(ctx: Any, of_scores: Tensor | None, of_alpha: Tensor | None, _: None) -> Tensor:
        alpha, p = ctx.saved_tensors
        change = torch.zeros_like(p) if of_scores is None else _scores_gradient(p, alpha, of_scores)
        return change if of_alpha is None else change + of_alpha * _alpha_change(p, alpha)


def _scores_gradient_by_kernels(p: Tensor, alpha: Tensor, gradient: Tensor) -> Tensor:
    rows, alphas = _as_rows(p, alpha)
    return entmax_kernels.backward(rows, alphas, gradient.reshape(rows.shape)).reshape(p.shape)


def _alpha_gradient_by_kernels(p: Tensor, alpha: Tensor, gradient: Tensor) -> Tensor:
    rows, alphas = _as_rows(p, alpha)
    return entmax_kernels.alpha_backward(rows, alphas, gradient.reshape(rows.shape)).reshape(*p.shape[:-1], 1)


_gradients_by_kernels = _scores_gradient_by_kernels, _alpha_gradient_by_kernels


def _as_rows(values: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    """Return values as rows [R, n], and alpha as [1] or [R]."""
    return values.reshape(-1, values.shape[-1]), _alpha_of_rows(values, alpha)


def _alpha_of_rows(values: Tensor, alpha: Tensor) -> Tensor:
    return alpha.reshape(1) if alpha.numel() == 1 else alpha.expand(*values.shape[:-1], 1).reshape(-1)


def defined(scores: Tensor, alpha: float | Tensor) -> Tensor:
    """Return the probabilities of rows [*, n] in torch; alpha is a number or [*, 1]."""
    if isinstance(alpha, Tensor):
        return _by_bisection(scores, alpha - 1)
    if alpha == 1:
        return scores.softmax(-1)
    highest = scores.amax(-1, keepdim=True)
    lower = scores - highest  # [*, n], at most 0
    rest = highest - highest  # 0, or NaN as the whole row: ONNX Runtime's Clip makes numbers of NaN
    if alpha == 1.5:
        return (lower / 2 - _tau_of_entmax15(lower / 2)).clamp(min=0).square() + rest
    if alpha == 2:
        return (lower - _tau_of_sparsemax(lower)).clamp(min=0) + rest
    return _by_bisection(scores, scores.new_tensor([alpha]) - 1)


def _descending(lower: Tensor) -> tuple[Tensor, Tensor]:
    """Return sorted scores [*, n], and the numbers 1 to n; no score of -1 or less has a probability above 0."""
    ordered = lower.clamp(min=-2).sort(dim=-1, descending=True).values
    return ordered, torch.arange(1, lower.shape[-1] + 1, device=lower.device, dtype=lower.dtype)


def _tau_of_sparsemax(lower: Tensor) -> Tensor:
    ordered, counts = _descending(lower)
    above = ordered.cumsum(-1) - 1
    kept = (counts * ordered > above).sum(-1, keepdim=True).clamp(min=1)  # 0 only if a score is not finite
    return above.gather(-1, kept - 1) / kept


def _tau_of_entmax15(lower: Tensor) -> Tensor:
    ordered, counts = _descending(lower)
    mean, squares = ordered.cumsum(-1) / counts, ordered.square().cumsum(-1) / counts
    variances = counts * (squares - mean.square())
    taus = mean - ((1 - variances) / counts).clamp(min=0).sqrt()
    kept = (taus <= ordered).sum(-1, keepdim=True).clamp(min=1)
    return taus.gather(-1, kept - 1)


def _by_bisection(scores: Tensor, c: Tensor) -> Tensor:
    """Return exp_c(lower + mu), with mu between -log_c(n), where every term is at most 1 / n, and 0.

    It takes float64: for alpha above 2, the power 1 / c multiplies rounding errors. Apple's GPUs have none, and
    exported files leave it out.
    """
    is_exporting = torch.compiler.is_exporting()
    if scores.dtype != torch.float64 and scores.device.type != "mps" and not is_exporting:
        return _by_bisection(scores.double(), c.double()).to(scores.dtype)
    lower = scores - scores.amax(-1, keepdim=True)  # [*, n], at most 0
    is_known = (c >= 0) & (c <= MOST_ALPHA - 1)
    c = torch.where(is_known, c, torch.nan)
    divisor = torch.where(c == 0, 1, c)
    log_n = lower.new_ones(lower.shape[-1]).sum().log()  # a tensor: the number may be dynamic in an exported file

    def exp_c(y: Tensor) -> Tensor:
        logarithm = torch.where(c == 0, y, (c * y).clamp(min=-1).log1p() / divisor)
        return logarithm.exp()

    low = torch.where(c == 0, -log_n, (-c * log_n).expm1() / divisor).expand(*lower.shape[:-1], 1)
    high = torch.zeros_like(low)
    for _ in range(24 if is_exporting else 60):
        middle = (low + high) / 2
        is_low = exp_c(lower + middle).sum(-1, keepdim=True) < 1
        low, high = torch.where(is_low, middle, low), torch.where(is_low, high, middle)
    p = exp_c(lower + (low + high) / 2)
    return p / p.sum(-1, keepdim=True)


def _sensitivities(p: Tensor, alpha: Tensor) -> Tensor:
    """Return s [*, n]; NaN where p is."""
    is_in = p != 0
    return torch.where(is_in, torch.where(is_in, p, 1) ** (2 - alpha), 0)


def _scores_gradient(p: Tensor, alpha: Tensor, gradient: Tensor) -> Tensor:
    s = _sensitivities(p, alpha)
    return s * (gradient - (s * gradient).sum(-1, keepdim=True) / s.sum(-1, keepdim=True))


def _alpha_gradient(p: Tensor, alpha: Tensor, gradient: Tensor) -> Tensor:
    """Return the gradient of each row's alpha, [*, 1]."""
    return (gradient * _alpha_change(p, alpha)).sum(-1, keepdim=True)


def _alpha_change(p: Tensor, alpha: Tensor) -> Tensor:
    """Return dp / dalpha, [*, n]."""
    c, logs = alpha - 1, torch.where(p != 0, p, 1).log()
    x = c * logs
    less_1 = (-x).expm1()
    e = torch.where(c == 0, -logs, less_1 / torch.where(c == 0, 1, c))
    h = logs.square() * _second_order(x, less_1)

    def mean(values: Tensor) -> Tensor:
        return (p * values).sum(-1, keepdim=True)

    return p * (mean(h) - h - logs * mean(e) + e * mean(logs)) / mean(less_1 + 1)


def _second_order(x: Tensor, exponential_less_1: Tensor) -> Tensor:
    """Return (e^-x - 1 + x) / x^2 without cancellation."""
    is_small = x.abs() < 0.25
    near = torch.where(is_small, x, 0)
    series = torch.ones_like(x)
    for divisor in range(11, 2, -1):  # 1 - x / 3 (1 - x / 4 (...))
        series = 1 - near / divisor * series
    return torch.where(is_small, series / 2, (exponential_less_1 + x) / torch.where(is_small, 1, x).square())


def _define(name: str, alpha: float) -> Any:
    """Register the opaque operator of a fixed alpha."""

    def gradients(p: Tensor, gradient: Tensor) -> tuple[Tensor, None]:
        return _scores_gradient(p, p.new_tensor([alpha]), gradient), None

    return define(name, "", lambda scores: _computed(scores, scores.new_tensor([alpha]), alpha), gradients)


def _alpha_gradients(p: Tensor, gradient: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
    of_alpha = _alpha_gradient(p, alpha, gradient).sum_to_size(alpha.shape)
    return _scores_gradient(p, alpha, gradient), of_alpha.to(alpha.dtype)


_EXACT = {1.5: "entmax15", 2: "sparsemax"}
OPERATORS = {
    "sparsemax": _define("sparsemax", 2.0),
    "entmax15": _define("entmax15", 1.5),
    "alpha_entmax": define(
        "alpha_entmax",
        ", Tensor alpha",
        lambda scores, alpha: _computed(scores, alpha.to(scores.dtype), None),
        _alpha_gradients,
    ),
    "topk_sparsemax": define(
        "topk_sparsemax",
        ", int k",
        _of_largest,
        lambda p, gradient, k: (_scores_gradient(p, p.new_tensor([2.0]), gradient), None),
    ),
}
"""Opaque operators of captured programs (`edge_embed.ops.opaque_entmax`), by name."""
