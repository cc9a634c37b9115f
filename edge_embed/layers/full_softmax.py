"""Full-softmax loss of an ANT table with a sparse gradient of T and in blocks of logits.

    T = max(T - step * (g^T (A h)^T + penalty), 0)          (eq. 35; g = softmax(logits) - onehot(target))

The outer product of g [n] and A h [A] is as large as T, but the proximal step undoes most of it: a zero entry stays
zero unless its gradient is below -penalty. This loss applies the step to the gradient first. It keeps only entries of
the product at nonzeros of T and entries that lift a zero. Rows without nonzeros and with a small g are skipped.

Source: "Anchor & Transform: Learning Sparse Embeddings for Large Vocabularies" (ICLR 2021), appendix H.

Shapes: n rows, A anchors, B hidden states.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from edge_embed.errors import BadInputError
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.ant_mixture import ANTMixtureEmbedding
from edge_embed.layers.proximal import checked_penalty
from edge_embed.layers.tied_output import TiedOutput, checked_batch
from edge_embed.ops.logits import row_blocks


def full_softmax_loss(output_layer: TiedOutput, hidden: Tensor, targets: Tensor, penalty: float) -> Tensor:
    """Return the mean cross entropy of ``output_layer(hidden)`` and ``targets``, a scalar.

    The gradients equal those of ``torch.nn.functional.cross_entropy``, but the gradient of the transform is a sparse
    tensor without the entries that the proximal step would set to zero again. A step then equals the step with all
    entries under three conditions: the optimiser is ``torch.optim.SGD`` without momentum, it is wrapped in an
    `edge_embed.ProximalOptimizer` with this penalty, and the transform gets no other gradient. If the table is tied to
    the input embedding, some entries may stay zero longer. `edge_embed.Yogi` rejects sparse gradients. A kept entry
    takes 20 bytes instead of 4 in a dense gradient, so use this loss if less than a fifth of the transform is above
    zero.

    Args:
        output_layer: output layer over an `ANTEmbedding`.
        hidden: hidden states ``[*, d]``.
        targets: ids of the right rows, integers ``[*]``; states with the target -100 are ignored, as in torch's losses.
        penalty: penalty of the `ProximalOptimizer`. Use 0 if some entries are ``unpenalized``: 0 keeps every entry
            that does not move below zero.

    Raises:
        BadInputError: for other shapes or types, a frozen table, a table of another method, or a softmax mixture.
        IdOutOfRangeError: for a target outside the table.
    """
    hidden, targets = checked_batch(output_layer, hidden, targets)
    layer, penalty = _checked_layer(output_layer), checked_penalty(penalty)
    wide = torch.promote_types(hidden.dtype, torch.float32)
    products = (hidden @ layer.anchors.t().to(hidden.dtype)).to(wide)  # [B, A], rows of (A h)^T
    loss: Tensor = _Loss.apply(products, layer.transform, output_layer.bias, targets, penalty, layer.padding_idx)  # type: ignore[no-untyped-call]
    return loss


def _checked_layer(output_layer: TiedOutput) -> ANTEmbedding:
    layer = output_layer.embedding
    if not isinstance(layer, ANTEmbedding) or (isinstance(layer, ANTMixtureEmbedding) and layer.mixing != "linear"):
        mixing = f" with mixing={layer.mixing!r}" if isinstance(layer, ANTMixtureEmbedding) else ""
        got = f"got an output layer over a {type(layer).__name__}{mixing}"
        raise BadInputError(f"output_layer: {got}, expected an ANTEmbedding; sampled_softmax_loss supports any table")
    if layer.frozen:
        raise BadInputError("the layer is frozen and no longer trained: compute this loss before freezing")
    return layer


class _Loss(torch.autograd.Function):
    """Mean loss of products [B, A], transform [n, A], bias [n] or None and targets [B]."""

    @staticmethod
    def forward(
        ctx: Any,
        products: Tensor,
        transform: Tensor,
        bias: Tensor | None,
        targets: Tensor,
        penalty: float,
        padding_idx: int | None,
    ) -> Tensor:
        ctx.penalty, ctx.padding_idx = penalty, padding_idx
        total = products.new_full((len(targets),), -torch.inf)  # [B], log of the sum of exponentials
        right = torch.empty_like(total)
        for begin, end, _, logits in _blocks(products, transform, bias, padding_idx):
            total = torch.logaddexp(total, logits.logsumexp(-1))
            inside = ((targets >= begin) & (targets < end)).nonzero().squeeze(-1)
            right[inside] = logits[inside, targets[inside] - begin]
        ctx.save_for_backward(products, transform, bias, targets, total)
        return (total - right).mean()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        products, transform, bias, targets, total = ctx.saved_tensors
        of_products, of_transform, of_bias = torch.zeros_like(products), [], []
        for begin, end, weights, logits in _blocks(products, transform, bias, ctx.padding_idx):
            errors = (logits - total.unsqueeze(-1)).exp_()  # [B, block], g of eq. (35)
            inside = ((targets >= begin) & (targets < end)).nonzero().squeeze(-1)
            errors[inside, targets[inside] - begin] -= 1
            errors *= gradient / len(targets)
            of_bias.append(errors.sum(0))
            if ctx.padding_idx is not None and begin <= ctx.padding_idx < end:
                errors[:, ctx.padding_idx - begin] = 0
            of_products += errors @ weights
            of_transform.append(_kept(errors, products, transform[begin:end], ctx.penalty))
        bias_gradient = None if bias is None else torch.cat(of_bias).to(bias.dtype)
        return of_products, torch.cat(of_transform), bias_gradient, None, None, None


def _blocks(
    products: Tensor, transform: Tensor, bias: Tensor | None, padding_idx: int | None
) -> Iterator[tuple[int, int, Tensor, Tensor]]:
    """Yield first id, end, weights [block, A] and logits [B, block] of consecutive blocks of rows."""
    for begin, end in row_blocks(len(transform), max(products.shape)):
        weights = transform[begin:end].clamp(min=0).to(products.dtype)
        if padding_idx is not None and begin <= padding_idx < end:
            weights[padding_idx - begin] = 0
        logits = products @ weights.t()
        yield begin, end, weights, logits if bias is None else logits + bias[begin:end]


def _kept(errors: Tensor, products: Tensor, transform: Tensor, penalty: float) -> Tensor:
    """Return the entries of the gradient of a block of T that the proximal step keeps: sparse [block, A]."""
    may_rise = errors.abs().t() @ products.abs().amax(-1) > penalty  # [block]; other rows have no entry below -penalty
    rows = (may_rise | (transform > 0).any(-1)).nonzero().squeeze(-1)
    part, gradient = transform[rows], errors[:, rows].t() @ products  # [rows, A] each
    kept = (part > 0) | ((part == 0) & (gradient < -penalty))
    at, anchors = kept.nonzero().unbind(-1)
    entries, values = torch.stack((rows[at], anchors)), gradient[at, anchors].to(transform.dtype)
    return torch.sparse_coo_tensor(entries, values, transform.shape, check_invariants=False, is_coalesced=True)
