"""Training rows of DPQ: the value selected on the way forward, a gradient that passes the selection on the way back.

Shapes: B ids, D groups of value width s = d/D, K codes per group; G = D, or 1 when subspaces are shared.
"""

from collections.abc import MutableMapping
from typing import Any

import torch
from torch import Tensor

from edge_embed.ops import dpq_kernels
from edge_embed.ops.dpq import select, value_indices
from edge_embed.ops.dpq_distance import (
    Metric,
    learned_by_torch,
    nearest,
    remembered_codes,
    training_codes,
    training_responses,
)


class _SoftChoice(torch.autograd.Function):
    """Pass rows [B, d] through, and let distances learn as if the rows were the softmax over them times the values."""

    @staticmethod
    def forward(rows: Tensor, response: Tensor, value: Tensor, temperature: float) -> Tensor:
        return rows.view_as(rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, float], output: Tensor) -> None:
        _, response, value, ctx.temperature = inputs
        ctx.save_for_backward(response, value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        response, value = ctx.saved_tensors
        if ctx.temperature != 1:  # the largest is moved to 0 first: in float16 a quotient overflows early
            response = (response - response.amax(1, keepdim=True)).div_(ctx.temperature)
        probability = response.softmax(1)  # [D, K, B]
        groups = gradient.to(value.dtype).unflatten(-1, (len(response), -1)).permute(1, 2, 0)  # [D, s, B]
        of_choice = (value @ groups).to(probability.dtype)  # [D, K, B]
        # p (g - sum(p g)) in one pass
        learned = torch.ops.aten._softmax_backward_data(of_choice, probability, 1, response.dtype)
        return gradient, learned / ctx.temperature, None, None


class _SoftRows(torch.autograd.Function):
    """`softmax_rows` by the kernels: distances are computed again on the way back, which is less than to keep them."""

    @staticmethod
    def forward(
        query: Tensor, weights: Tensor, value: Tensor, code: Tensor, metric: Metric, temperature: float
    ) -> Tensor:
        return dpq_kernels.rows(value, code)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        *tensors, ctx.metric, ctx.temperature = inputs
        ctx.save_for_backward(*tensors)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, weights, value, code = ctx.saved_tensors
        if torch.is_grad_enabled():

            def rows(query: Tensor, weights: Tensor, value: Tensor) -> Tensor:
                response = training_responses(query, weights, ctx.metric)
                return _soft_choice(response, value, code, ctx.temperature)

            return *learned_by_torch(rows, [query, weights, value], [gradient]), None, None, None
        of = dpq_kernels.distances(query, weights, ctx.metric)
        return *dpq_kernels.soft_backward(of, value, code, ctx.temperature, gradient), None, None, None


def softmax_rows(
    query: Tensor,
    weights: Tensor,
    value: Tensor,
    metric: Metric,
    temperature: float,
    memory: MutableMapping[str, Tensor],
) -> Tensor:
    """SX, eq. (4) and (5): H_j = (p - sg(p - one)) V_j with p = softmax(r_j / tau) and one = onehot(c_j).

    That is V_j[c_j], from which V learns; the distances r_j learn from p. The softmax is taken on the way back only.

    Args:
        query: q, [B, D w].
        weights: of the distances, [G, f, K] (`edge_embed.ops.dpq_distance`).
        value: V, [G, K, s].
        metric: of the distances.
        temperature: tau.
        memory: where codes may be kept, and taken from by the pass that repeats this one.

    Returns:
        [B, d].
    """
    rows: Tensor
    if dpq_kernels.serves(query, weights, value):
        code = remembered_codes(memory, lambda: training_codes(query, weights, metric))
        rows = _SoftRows.apply(query, weights, value, code, metric, temperature)  # type: ignore[no-untyped-call]
        return rows
    response = training_responses(query, weights, metric)  # [D, K, B]
    return _soft_choice(response, value, nearest(response), temperature)


def _soft_choice(response: Tensor, value: Tensor, code: Tensor, temperature: float) -> Tensor:
    rows: Tensor = _SoftChoice.apply(select(value, code.int().t()), response, value, temperature)  # type: ignore[no-untyped-call]
    return rows


class _CentroidRows(torch.autograd.Function):
    """Values selected, [B, d], with the gradient of the query; what the values learn does not depend on it."""

    @staticmethod
    def forward(query: Tensor, value: Tensor, code: Tensor, weight: Tensor) -> Tensor:
        return dpq_kernels.rows(value, code) if dpq_kernels.serves(query, value) else select(value, code.int().t())

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, Tensor], output: Tensor) -> None:
        # Moving averages are moved by the next forward pass, which may come before this one's backward pass.
        ctx.save_for_backward(*(inputs if inputs[1].requires_grad else ()))
        ctx.set_materialize_grads(True)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if not ctx.needs_input_grad[1]:
            return gradient, None, None, None
        query, value, code, weight = ctx.saved_tensors
        if dpq_kernels.serves(query, value, weight):
            return gradient, dpq_kernels.centroid_backward(query, value, code, weight), None, None
        wide = weight.dtype
        distance = (select(value, code.int().t()).to(wide) - query) * weight.unsqueeze(-1)  # [B, d]
        learned = torch.zeros_like(value, dtype=wide).flatten(0, 1)  # [G K, s]
        learned.index_add_(0, value_indices(value, code.int().t()), 2 * distance.reshape(-1, value.shape[-1]))
        return gradient, learned.view_as(value).to(value.dtype), None, None


def centroid_rows(query: Tensor, value: Tensor, code: Tensor, counts: Tensor, share: float) -> Tensor:
    """VQ, eq. (7): H_j = q_j - sg(q_j - V_j[c_j]), and V learns from share L_reg, whatever becomes of the rows.

    H_j is V_j[c_j] with the gradient of q_j, and L_reg = mean((V_j[c_j] - sg(q_j))^2).

    Args:
        query: [B, d].
        value: V, [G, K, s]; it learns if it wants a gradient.
        code: c, [D, B] of `dpq_kernels.code_type`.
        counts: how often each query counts in the mean, integers [B].
        share: what the term counts.

    Returns:
        [B, d].
    """
    wide = torch.promote_types(query.dtype, torch.float32)  # sums over a batch
    weight = share * counts.to(wide) / (query.shape[-1] * counts.sum()).clamp(min=1)
    rows: Tensor = _CentroidRows.apply(query, value, code, weight)  # type: ignore[no-untyped-call]
    return rows
