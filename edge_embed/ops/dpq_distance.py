"""Distances of DPQ: how near query sub-vectors are to keys, normalised, and which key is the nearest (eq. 1).

    dot        r_j(k) = <q_j, K_jk>               (eq. 3)
    euclidean  r_j(k) = -|q_j - K_jk|^2           (eq. 6; the square changes no code)
    cosine     r_j(k) = <q_j, K_jk> / |q_j||K_jk|

    c_j = argmax_k norm(r_j)(k)

``norm`` is the batch norm over distances of appendix C, which is without scale and centre in the authors' released
code: one mean and variance per choice k, shared by all groups, or for each group its own.

Shapes: B queries, D groups of key width s, K codes per group; G = D, or 1 when subspaces are shared.
"""

from typing import Literal, get_args

import torch
from torch import Tensor

from edge_embed.errors import BadInputError

Metric = Literal["dot", "euclidean", "cosine"]
METRICS: tuple[Metric, ...] = get_args(Metric)

NORM_EPS = 1e-5
_LEAST_LENGTH = 1e-12  # a vector shorter than this has no direction
# Models saved before there were metrics name the variant.
_METRIC_OF: dict[str, Metric] = {"sx": "dot", "vq": "euclidean"}


def known_metric(name: str) -> Metric:
    """The metric of an operator's argument.

    Raises:
        BadInputError: if there is no such metric.
    """
    for metric in METRICS:
        if _METRIC_OF.get(name, name) == metric:
            return metric
    raise BadInputError(f"metric must be one of {', '.join(METRICS)}, got {name!r:.80}")


def responses(query: Tensor, key: Tensor, metric: Metric) -> Tensor:
    """Similarity of every query sub-vector to every key of its group, as it is trained.

    Args:
        query: [B, D s].
        key: [G, K, s].
        metric: as above.

    Returns:
        [D, B, K], larger is nearer.
    """
    groups: Tensor = query.unflatten(-1, (-1, key.shape[-1])).transpose(0, 1)  # [D, B, s]
    if metric == "cosine":
        groups, key = _directions(groups), _directions(key)
    dots: Tensor = groups @ key.transpose(1, 2)  # [D, B, K]
    if metric != "euclidean":
        return dots
    return 2 * dots - groups.square().sum(-1, keepdim=True) - key.square().sum(-1).unsqueeze(1)


def _directions(vectors: Tensor) -> Tensor:
    """Vectors [..., s] divided by their lengths; one without a direction is zero, and learns nothing."""
    wide = vectors.to(torch.promote_types(vectors.dtype, torch.float32))  # squares of float16 underflow
    length = wide.norm(dim=-1, keepdim=True).clamp(min=_LEAST_LENGTH)
    return torch.where(length > _LEAST_LENGTH, wide / length, 0.0).to(vectors.dtype)


def batch_statistics(response: Tensor, counts: Tensor, per_group: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Mean and variance of distances [D, B, K], those of a query counted ``counts`` [B] times, and of how many.

    Returns:
        Mean and variance [K] over groups and queries, or [D, K] over queries; their number, of rank 0.
    """
    weight = counts.to(response.dtype).unsqueeze(-1)  # [B, 1]
    places = (1,) if per_group else (0, 1)
    total = weight.sum() * (1 if per_group else response.shape[0])
    mean = (response * weight).sum(places) / total.clamp(min=1)
    variance = ((response - mean.unsqueeze(-2)).square() * weight).sum(places) / total.clamp(min=1)
    return mean, variance, total


def normalized(response: Tensor, mean: Tensor, variance: Tensor) -> Tensor:
    """Distances [D, B, K] by statistics [K] or [D, K]."""
    return (response - mean.unsqueeze(-2)) * _inverse_deviation(variance).unsqueeze(-2)


def _inverse_deviation(variance: Tensor) -> Tensor:
    return torch.rsqrt(variance + NORM_EPS)


def codes(query: Tensor, key: Tensor, mean: Tensor | None, variance: Tensor | None, metric: Metric) -> Tensor:
    """Codes of query rows [B, D s] as they are at inference: int64 [B, D]; the lowest k wins a tie."""
    return distances(query, affine(key, mean, variance, metric), metric).max(dim=-1).indices.t()


def distances(query: Tensor, weights: Tensor, metric: Metric) -> Tensor:
    """Normalised distances of query rows [B, D s] at inference: float32 [D, B, K], larger is nearer.

    ``weights`` [G, s + 2, K] are those of `affine`. Distances are summed in float64 and compared in float32: the
    order of summation depends on the batch, and one flipped code replaces a whole sub-vector, so what differs by
    float64 rounding alone has to be a tie.
    """
    groups = query.double().unflatten(-1, (-1, weights.shape[1] - 2)).transpose(0, 1)  # [D, B, s]
    if metric == "cosine":
        groups = _directions(groups)
    square = groups.square().sum(-1, keepdim=True)
    features = torch.cat((groups, square, torch.ones_like(square)), -1)  # [D, B, s + 2]
    return (features @ weights).float()


def affine(key: Tensor, mean: Tensor | None, variance: Tensor | None, metric: Metric) -> Tensor:
    """Normalised distances as one matrix product with (q, |q|^2, 1): key [G, K, s] -> float64 [G, s + 2, K].

    A pass over all distances, for the norm or for a squared length, would cost as much as the product. Statistics
    [D, K] give weights [D, s + 2, K], also where keys are shared.
    """
    key, num_codes = key.double(), key.shape[1]
    scale = key.new_ones(1, num_codes)
    if variance is not None:
        scale = _inverse_deviation(variance.double()).reshape(-1, num_codes)  # [1, K] or [D, K]
    shift = torch.zeros_like(scale) if mean is None else mean.double().reshape(-1, num_codes)
    key = key.expand(max(len(key), len(scale)), -1, -1)
    if metric == "euclidean":
        by_query, by_square = 2 * key, -torch.ones_like(key[..., :1])
        constant = -key.square().sum(-1, keepdim=True)
    else:
        by_query = _directions(key) if metric == "cosine" else key
        by_square = constant = torch.zeros_like(key[..., :1])
    weights = torch.cat((by_query, by_square, constant - shift.unsqueeze(-1)), -1)  # [G, K, s + 2]
    return (weights * scale.unsqueeze(-1)).transpose(1, 2)
