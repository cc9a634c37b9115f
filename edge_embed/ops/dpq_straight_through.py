"""Training rows of DPQ: the value selected on the way forward, a gradient that passes the selection on the way back.

Shapes: B ids, D groups of value width s = d/D, K codes per group; G = D, or 1 when subspaces are shared.
"""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


class _AddLoss(torch.autograd.Function):
    """Pass ``output`` through and let ``loss`` be minimised as if it were added to the user's loss."""

    @staticmethod
    def forward(output: Tensor, loss: Tensor) -> Tensor:
        return output.view_as(output)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor], output: Tensor) -> None:
        ctx.set_materialize_grads(True)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
        return gradient, gradient.new_ones(())


def softmax_rows(response: Tensor, code: Tensor, value: Tensor, temperature: float) -> Tensor:
    """SX, eq. (4) and (5): H_j = (p - sg(p - one)) V_j with p = softmax(r_j / tau) and one = onehot(c_j).

    Args:
        response: distances r, [D, B, K], larger is nearer.
        code: c, the argmax of ``response``, int64 [D, B].
        value: V, [G, K, s].
        temperature: tau.

    Returns:
        [B, d].
    """
    if temperature != 1:  # the largest is moved to 0 first: in float16 a quotient overflows early
        response = (response - response.amax(-1, keepdim=True).detach()) / temperature
    probability = response.softmax(-1)
    one_hot = functional.one_hot(code, response.shape[-1]).to(probability.dtype)
    choice = probability + (one_hot - probability).detach()
    return (choice @ value).transpose(0, 1).flatten(1)  # [D, B, s] -> [B, d]


def centroid_rows(query: Tensor, selected: Tensor) -> Tensor:
    """VQ, eq. (7): H_j = q_j - sg(q_j - V_j[c_j]), query and selected values [B, d] -> [B, d]."""
    return query + (selected - query).detach()


def with_regulariser(rows: Tensor, query: Tensor, selected: Tensor, counts: Tensor, share: float) -> Tensor:
    """Rows [B, d] that make values learn from L_reg = mean((V_j[c_j] - sg(q_j))^2), whatever becomes of the rows.

    Args:
        rows: of `centroid_rows`.
        query: [B, d].
        selected: the values selected, [B, d].
        counts: how often each counts, integers [B].
        share: what the term counts.
    """
    distance = (selected - query.detach()).square() * counts.unsqueeze(-1)
    loss = share * distance.sum() / (query.shape[-1] * counts.sum()).clamp(min=1)
    return _AddLoss.apply(rows, loss)  # type: ignore[no-untyped-call, no-any-return]
