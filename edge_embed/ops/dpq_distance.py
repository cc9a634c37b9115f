"""Distances of DPQ: normalised similarity of query sub-vectors to keys, and the code of the nearest key (eq. 1).

    dot        r_j(k) = <q_j, K_jk>               (eq. 3)
    euclidean  r_j(k) = -|q_j - K_jk|^2           (eq. 6; the square changes no code)
    cosine     r_j(k) = <q_j, K_jk> / |q_j||K_jk|

    c_j = argmax_k norm(r_j)(k)

``norm`` is the batch norm over distances of appendix C, without scale and centre as in the authors' released code. It
has one mean and variance per code k, shared by all groups, or one per group and code.

Shapes: B queries, D groups of key width s, K codes per group; G = D, or 1 for shared subspaces.
"""

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.ops import dpq_kernels
from edge_embed.ops.dpq_kernels import width_of
from edge_embed.ops.training_library import serves

Metric = Literal["dot", "euclidean", "cosine"]
METRICS: tuple[Metric, ...] = get_args(Metric)

NORM_EPS = 1e-5
_LEAST_LENGTH = 1e-12  # a vector shorter than this has no direction
# Models saved before metrics existed name the variant.
_METRIC_OF: dict[str, Metric] = {"sx": "dot", "vq": "euclidean"}


def known_metric(name: str) -> Metric:
    """Return the metric of an operator's argument.

    Raises:
        BadInputError: if the metric is unknown.
    """
    for metric in METRICS:
        if _METRIC_OF.get(name, name) == metric:
            return metric
    raise BadInputError(f"metric must be one of {', '.join(METRICS)}, got {name!r:.80}")


def responses(query: Tensor, weights: Tensor, metric: Metric) -> Tensor:
    """Return similarities of query sub-vectors to all keys of their group: [B, D s] -> [D, B, K], larger is nearer.

    ``weights`` [G, f, K] are the result of `affine` or `normalized`.
    """
    return features(query, weights.shape[1], metric).transpose(1, 2) @ weights


def features(query: Tensor, num_features: int, metric: Metric) -> Tensor:
    """Return the features that distances are linear in, [D, f, B]: (q, |q|^2, 1), or (q, 1) if |q|^2 plays no part.

    Queries are the last axis because sub-vectors are short: a sum over a sub-vector is then a sum of long vectors.
    """
    groups = query.t().contiguous().unflatten(0, (-1, width_of(num_features, metric)))  # [D, s, B]
    if metric == "cosine":
        groups = _directions(groups, dim=1)
    square = [groups.square().sum(1, keepdim=True)] if metric == "euclidean" else []
    return torch.cat((groups, *square, torch.ones_like(groups[:, :1])), 1)


def affine(key: Tensor, metric: Metric) -> Tensor:
    """Return weights [G, f, K]: distances to keys [G, K, s] are their product with `features`, a single matrix product.

    The last row is the constant term. A separate pass over all distances, for the norm or a squared length, would cost
    as much as the product.
    """
    if metric == "euclidean":
        square = key.square().sum(-1, keepdim=True)
        parts = [2 * key, -torch.ones_like(square), -square]
    else:
        parts = [_directions(key, dim=-1) if metric == "cosine" else key, torch.zeros_like(key[..., :1])]
    return torch.cat(parts, -1).transpose(1, 2)


def normalized(weights: Tensor, mean: Tensor | None, variance: Tensor | None) -> Tensor:
    """Normalise weights [G, f, K] of distances by statistics [K] or [D, K]; [D, K] gives [D, f, K], also for G = 1."""
    if mean is None or variance is None:
        return weights
    num_codes = weights.shape[-1]
    mean, scale = (each.reshape(-1, 1, num_codes) for each in (mean, torch.rsqrt(variance + NORM_EPS)))
    weights = weights.expand(max(len(weights), len(mean)), -1, -1)
    return torch.cat((weights[:, :-1], weights[:, -1:] - mean), 1) * scale


def training_responses(query: Tensor, weights: Tensor, metric: Metric) -> Tensor:
    """Return the distances [D, K, B] of queries [B, D s] by weights [G, f, K], in the dtype of the queries.

    Codes come before queries. A pass over the codes, such as a softmax or `nearest`, then processes many queries at a
    time, which is faster for few codes.
    """
    parts = features(query.to(weights.dtype), weights.shape[1], metric)  # a norm exceeds the range of float16
    return (weights.transpose(1, 2) @ parts).to(query.dtype)


@torch.no_grad()
def training_codes(query: Tensor, weights: Tensor, metric: Metric) -> Tensor:
    """Return the codes of queries [B, D s] in training, [D, B] of `dpq_kernels.code_type`."""
    if serves(query, weights):
        return dpq_kernels.nearest(dpq_kernels.distances(query, weights, metric))
    return nearest(training_responses(query, weights, metric)).to(dpq_kernels.code_type(weights.shape[-1]))


@torch.no_grad()
def remembered_codes(memory: MutableMapping[str, Tensor], find: Callable[[], Tensor]) -> Tensor:
    """Return `training_codes` from ``memory``, which the first call fills by ``find``."""
    if "code" not in memory:
        memory["code"] = find()
    return memory["code"]


@torch.no_grad()
def nearest(response: Tensor) -> Tensor:
    """Return the codes of distances [D, K, B]: int64 [D, B]; the lowest k wins a tie.

    This is an argmax from operations that torch has vectorised: every largest distance is marked, and the mark of the
    lowest k has the highest rank. NaN distances select the last k.
    """
    num_codes = response.shape[1]
    marks = torch.empty_like(response, dtype=torch.float32)
    torch.eq(response, response.amax(1, keepdim=True), out=marks)
    ranks = torch.arange(num_codes - 1, -1, -1, dtype=marks.dtype, device=marks.device).unsqueeze(-1)  # [K, 1]
    return num_codes - 1 - marks.mul_(ranks).amax(1).long()


def batch_statistics(
    query: Tensor, weights: Tensor, metric: Metric, counts: Tensor, per_group: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return mean, variance and number of distances, with each query counted ``counts`` [B] times.

    They are computed from mean and covariance of the few features that distances are linear in, by weights [G, f, K].

    Returns:
        Mean and variance [K] over groups and queries, or [D, K] over queries; their number, a scalar.
    """
    weight = counts.to(weights.dtype)  # [B]
    total = weight.sum()
    centre, covariance = feature_moments(query, weight / total.clamp(min=1), weights.shape[1], metric)
    mean = (centre.unsqueeze(1) @ weights).squeeze(1)  # [D, K]
    variance = (weights * (covariance @ weights)).sum(1).clamp(min=0)  # [D, K]
    if per_group:
        return mean, variance, total
    overall = mean.mean(0)  # [K]
    return overall, (variance + (mean - overall).square()).mean(0), total * len(centre)


def feature_moments(query: Tensor, shares: Tensor, num_features: int, metric: Metric) -> tuple[Tensor, Tensor]:
    """Return mean [D, f] and covariance [D, f, f] of the features of queries [B, D s], with shares [B] of sum 1."""
    if serves(query, shares):
        found: tuple[Tensor, Tensor] = _FeatureMoments.apply(query, shares, num_features, metric)  # type: ignore[no-untyped-call]
        return found
    return _moments_by_torch(query, shares, num_features, metric)


def _moments_by_torch(query: Tensor, shares: Tensor, num_features: int, metric: Metric) -> tuple[Tensor, Tensor]:
    parts = features(query.to(shares.dtype), num_features, metric)  # [D, f, B]
    centre = parts @ shares  # [D, f]
    centred = parts - centre.unsqueeze(-1)
    return centre, (centred * shares) @ centred.transpose(1, 2)


class _FeatureMoments(torch.autograd.Function):
    @staticmethod
    def forward(query: Tensor, shares: Tensor, num_features: int, metric: Metric) -> tuple[Tensor, Tensor]:
        return dpq_kernels.moments(query, shares, num_features, metric)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        query, shares, _, ctx.metric = inputs
        ctx.save_for_backward(query, shares, output[0])

    @staticmethod
    def backward(ctx: Any, of_centre: Tensor, of_covariance: Tensor) -> tuple[Tensor | None, ...]:
        query, shares, centre = ctx.saved_tensors
        if torch.is_grad_enabled():

            def moments(query: Tensor) -> tuple[Tensor, Tensor]:
                return _moments_by_torch(query, shares, centre.shape[1], ctx.metric)

            return *learned_by_torch(moments, [query], (of_centre, of_covariance)), None, None, None
        learned = dpq_kernels.moments_backward(query, shares, ctx.metric, centre, of_centre, of_covariance)
        return learned, None, None, None


def learned_by_torch(
    function: Callable[..., Any], inputs: Sequence[Tensor], gradients: Sequence[Tensor]
) -> tuple[Tensor | None, ...]:
    """Return the gradients of the inputs of a function by torch, such that the gradients are differentiable too."""
    inputs = [each.view_as(each) for each in inputs]  # one input may be a view of another
    wanted = [each for each in inputs if each.requires_grad]
    learned = iter(torch.autograd.grad(function(*inputs), wanted, gradients, create_graph=True))
    return tuple(next(learned) if each.requires_grad else None for each in inputs)


def _directions(vectors: Tensor, dim: int) -> Tensor:
    """Divide vectors along a dimension by their lengths; one without a direction becomes zero, with zero gradient."""
    wide = vectors.to(torch.promote_types(vectors.dtype, torch.float32))  # squares of float16 underflow
    square = wide.square().sum(dim, keepdim=True)
    has_direction = square > _LEAST_LENGTH**2
    return (wide * torch.where(has_direction, square.clamp(min=_LEAST_LENGTH**2).rsqrt(), 0.0)).to(vectors.dtype)


def codes(query: Tensor, key: Tensor, mean: Tensor | None, variance: Tensor | None, metric: Metric) -> Tensor:
    """Return the codes of query rows [B, D s] at inference: int64 [B, D]; the lowest k wins a tie."""
    return distances(query, inference_weights(key, mean, variance, metric), metric).max(dim=-1).indices.t()


def distances(query: Tensor, weights: Tensor, metric: Metric) -> Tensor:
    """Return normalised distances of query rows [B, D s] at inference: float32 [D, B, K], larger is nearer.

    ``weights`` [G, f, K] are the result of `inference_weights`. Distances are summed in float64 and compared in
    float32. The order of summation depends on the batch, and one flipped code replaces a whole sub-vector. Distances
    that differ only by float64 rounding must therefore be ties.
    """
    return responses(query.double(), weights, metric).float()


def inference_weights(key: Tensor, mean: Tensor | None, variance: Tensor | None, metric: Metric) -> Tensor:
    """Return the weights of distances normalised by running statistics, float64 [G or D, f, K]."""
    mean, variance = (None if each is None else each.double() for each in (mean, variance))
    return normalized(affine(key.double(), metric), mean, variance)
