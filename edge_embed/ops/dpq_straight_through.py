"""Training rows of DPQ by straight-through estimators: the forward pass selects values, the backward pass skips it.

Shapes: B ids, D groups of value width s = d/D, K codes per group; G = D, or 1 for shared subspaces.
"""

from collections.abc import MutableMapping
from typing import Any

import torch
from torch import Tensor

from edge_embed.ops import dpq_kernels, training_library
from edge_embed.ops.dpq import select, value_indices
from edge_embed.ops.dpq_distance import (
    Metric,
    learned_by_torch,
    nearest,
    remembered_codes,
    training_codes,
    training_responses,
)
from edge_embed.ops.logits import row_blocks


class _SoftChoice(torch.autograd.Function):
    """Passes rows [B, d] through, with the gradient of distances as if rows were softmax(distances) times values.

    With ``soft_values`` the values get this gradient too.
    """

    @staticmethod
    def forward(rows: Tensor, response: Tensor, value: Tensor, temperature: float, soft_values: bool) -> Tensor:
        return rows.view_as(rows)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, float, bool], output: Tensor) -> None:
        _, response, value, ctx.temperature, ctx.soft_values = inputs
        ctx.save_for_backward(response, value)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        response, value = ctx.saved_tensors
        if ctx.temperature != 1:  # shifted to a maximum of 0: in float16 a quotient overflows early
            response = (response - response.amax(1, keepdim=True)).div_(ctx.temperature)
        probability = response.softmax(1)  # [D, K, B]
        groups = gradient.to(value.dtype).unflatten(-1, (len(response), -1)).permute(1, 2, 0)  # [D, s, B]
        of_choice = (value @ groups).to(probability.dtype)  # [D, K, B]
        # p (g - sum(p g)) in one pass
        learned = torch.ops.aten._softmax_backward_data(of_choice, probability, 1, response.dtype)
        of_value = _of_soft_value(probability, groups, value) if ctx.soft_values else None
        return gradient, learned / ctx.temperature, of_value, None, None


def _of_soft_value(probability: Tensor, groups: Tensor, value: Tensor) -> Tensor:
    """Return the gradient of values [G, K, s] from p [D, K, B] and a gradient of rows [D, s, B]: p g."""
    learned = probability.to(value.dtype) @ groups.transpose(1, 2)  # [D, K, s]
    return learned if len(value) == len(learned) else learned.sum(0, keepdim=True)


class _SoftRows(torch.autograd.Function):
    """`softmax_rows` by the kernels. The backward pass recomputes distances, which is cheaper than storing them."""

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
                return _soft_choice(response, value, code, ctx.temperature, soft_values=False)

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
    soft_values: bool = False,
) -> Tensor:
    """Return the rows of SX, eq. (4) and (5), with p = softmax(r_j / tau) and one = onehot(c_j).

        H_j = (p - sg(p - one)) V_j            only V_j[c_j] gets a gradient, as in the authors' code
        H_j = p V_j - sg(p V_j - V_j[c_j])     all values get one, weighted by p: ``soft_values``, as eq. (5) is printed

    Both equal V_j[c_j], and the distances r_j get their gradient through p. Only the backward pass computes the
    softmax.

    Args:
        query: q, [B, D w].
        weights: weights of the distances, [G, f, K] (`edge_embed.ops.dpq_distance`).
        value: V, [G, K, s].
        metric: metric of the distances.
        temperature: tau.
        memory: store for codes, which a pass that repeats this one reads.
        soft_values: whether to use the second form, which always runs in torch.

    Returns:
        [B, d].
    """
    rows: Tensor
    if not soft_values and training_library.serves(query, weights, value):
        code = remembered_codes(memory, lambda: training_codes(query, weights, metric))
        rows = _SoftRows.apply(query, weights, value, code, metric, temperature)  # type: ignore[no-untyped-call]
        return rows
    response = training_responses(query, weights, metric)  # [D, K, B]
    return _soft_choice(response, value, nearest(response), temperature, soft_values)


def _soft_choice(response: Tensor, value: Tensor, code: Tensor, temperature: float, soft_values: bool) -> Tensor:
    selected = select(value.detach() if soft_values else value, code.int().t())  # [B, d]
    rows: Tensor = _SoftChoice.apply(selected, response, value, temperature, soft_values)  # type: ignore[no-untyped-call]
    return rows


class _CentroidRows(torch.autograd.Function):
    """Selected values [B, d] with the gradient of the query; the gradient of the values is zero.

    It is zero and not missing, because DistributedDataParallel waits for a gradient of each parameter that rows depend
    on.
    """

    @staticmethod
    def forward(query: Tensor, value: Tensor, code: Tensor) -> Tensor:
        return _selected(query, value, code)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor], output: Tensor) -> None:
        # Only the shape: the next forward pass moves moving averages and may run before this backward pass.
        ctx.value_shape = inputs[1].shape
        ctx.set_materialize_grads(True)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        return gradient, gradient.new_zeros(ctx.value_shape) if ctx.needs_input_grad[1] else None, None


def centroid_rows(query: Tensor, value: Tensor, code: Tensor) -> Tensor:
    """Return the rows of VQ, eq. (7): H_j = q_j - sg(q_j - V_j[c_j]), which is V_j[c_j] with the gradient of q_j.

    Args:
        query: [B, d].
        value: V, [G, K, s].
        code: c, [D, B] of `dpq_kernels.code_type`.

    Returns:
        [B, d].
    """
    rows: Tensor = _CentroidRows.apply(query, value, code)  # type: ignore[no-untyped-call]
    return rows


class _SquaredDistance(torch.autograd.Function):
    """`squared_distance`, whose backward pass recomputes the difference of rows."""

    @staticmethod
    def forward(query: Tensor, value: Tensor, code: Tensor, counts: Tensor) -> Tensor:
        total = query.new_zeros((), dtype=_wide(query))
        for begin, end in row_blocks(*query.shape):
            difference = _difference(query[begin:end], value, code[:, begin:end])
            total += difference.square().sum(-1) @ counts[begin:end].to(total.dtype)
        return total

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        query, value, code, counts = ctx.saved_tensors
        weight = counts.to(gradient.dtype) * gradient  # [B]
        of_query = _of_query(query, value, code, weight) if ctx.needs_input_grad[0] else None
        of_value = _of_value(query, value, code, weight) if ctx.needs_input_grad[1] else None
        return of_query, of_value, None, None


def squared_distance(query: Tensor, value: Tensor, code: Tensor, counts: Tensor) -> Tensor:
    """Return the sum over b of counts_b |V[c_b] - q_b|^2, differentiable in queries and values.

    Args:
        query: q, [B, d].
        value: V, [G, K, s].
        code: c, [D, B] of `dpq_kernels.code_type`.
        counts: integers [B].

    Returns:
        A scalar, at least float32. Blocks of V[c] in memory have at most 2^20 numbers.
    """
    distance: Tensor = _SquaredDistance.apply(query, value, code, counts)  # type: ignore[no-untyped-call]
    return distance


def _wide(query: Tensor) -> torch.dtype:
    """Return the dtype of sums over a batch."""
    return torch.promote_types(query.dtype, torch.float32)


def _selected(query: Tensor, value: Tensor, code: Tensor) -> Tensor:
    """Return V[c], [B, d]."""
    if training_library.serves(query, value):
        return dpq_kernels.rows(value, code.contiguous())
    return select(value, code.int().t())


def _difference(query: Tensor, value: Tensor, code: Tensor) -> Tensor:
    """Return V[c] - q, [B, d], in the dtype of sums."""
    return _selected(query, value, code).to(_wide(query)) - query


def _of_query(query: Tensor, value: Tensor, code: Tensor, weight: Tensor) -> Tensor:
    """Return -2 weight (V[c] - q), [B, d]."""
    learned = torch.empty_like(query)
    for begin, end in row_blocks(*query.shape):
        difference = _difference(query[begin:end], value, code[:, begin:end])
        learned[begin:end] = -2 * weight[begin:end].unsqueeze(-1) * difference
    return learned


def _of_value(query: Tensor, value: Tensor, code: Tensor, weight: Tensor) -> Tensor:
    """Return 2 weight (V[c] - q), summed for each value: [G, K, s]."""
    if training_library.serves(query, value, weight):
        return dpq_kernels.centroid_backward(query, value, code.contiguous(), weight)
    learned = torch.zeros_like(value, dtype=weight.dtype).flatten(0, 1)  # [G K, s]
    for begin, end in row_blocks(*query.shape):
        part = code[:, begin:end]
        terms = 2 * weight[begin:end].unsqueeze(-1) * _difference(query[begin:end], value, part)  # [B, d]
        learned.index_add_(0, value_indices(value, part.int().t()), terms.reshape(-1, value.shape[-1]))
    return learned.view_as(value).to(value.dtype)
