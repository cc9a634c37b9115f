"""Checks of the options of `DPQEmbedding`, with the reasons why some exclude each other."""

import math
from typing import Literal

import torch

from edge_embed.errors import BadInputError
from edge_embed.layers.arguments import is_number
from edge_embed.ops.dpq_distance import METRICS
from edge_embed.packed.bits import MAX_CODES, MIN_CODES

Variant = Literal["sx", "vq"]
DistanceNorm = bool | Literal["per_group"]
ValueGradient = Literal["selected", "softmax"]

LEARNED = 1e-3, 1e3  # range of a learned temperature
_MOST_NAMED = 6


def check_sizes(embedding_dim: int, num_codes: int, num_groups: int, key_dim: int, tied: bool) -> None:
    """Raise `BadInputError` unless groups divide both widths and tied keys are as wide as values."""
    if not MIN_CODES <= num_codes <= MAX_CODES:
        raise BadInputError(f"num_codes must be {MIN_CODES} to {MAX_CODES}, got {num_codes}")
    for name, size in (("embedding_dim", embedding_dim), ("key_dim", key_dim)):
        if size % num_groups:
            works = _nearest_divisors(math.gcd(embedding_dim, key_dim), num_groups)
            raise BadInputError(f"num_groups must divide {name}, got {num_groups} and {size}: choose one of {works}")
    if tied and key_dim != embedding_dim:
        expected = f"expected {embedding_dim} (embedding_dim), as keys and values are one matrix"
        raise BadInputError(f"key_dim: got {key_dim}, {expected}")


def _nearest_divisors(size: int, wanted: int) -> str:
    divisors = [groups for groups in range(1, size + 1) if size % groups == 0]
    nearest = sorted(divisors, key=lambda groups: abs(groups - wanted))[:_MOST_NAMED]
    return ", ".join(map(str, sorted(nearest)))


def check_directions(metric: str, key_dim: int, num_groups: int) -> None:
    """Raise `BadInputError` for the cosine of one-column keys: it is a sign, equal for half of the keys."""
    if metric == "cosine" and key_dim == num_groups:
        widths = f"key_dim {key_dim} in {num_groups} groups, expected at least 2 columns per group"
        raise BadInputError(f'metric: got "cosine" with {widths}; use fewer groups or a larger key_dim')


def check_switch(name: str, switch: bool) -> None:
    """Raise `BadInputError` unless ``switch`` is True or False."""
    if not isinstance(switch, bool):
        raise BadInputError(f"{name} must be True or False, got {switch!r:.80}")


def check_scale(name: str, scale: float) -> None:
    """Raise `BadInputError` unless ``scale`` is finite and at least 0, the bound of a uniform start [-scale, scale]."""
    if not (isinstance(scale, int | float) and 0 <= scale < math.inf):
        raise BadInputError(f"{name} must be a finite number of at least 0, got {scale!r:.80}")


def check_norm(eps: float, momentum: float) -> None:
    """Raise `BadInputError` unless float32 can hold variances plus ``eps``, and ``momentum`` is in (0, 1]."""
    if not (is_number(eps) and 1e-8 <= eps <= 1):
        raise BadInputError(f"norm_eps must be 1e-8 to 1, got {eps!r:.80}")
    if not (is_number(momentum) and 0 < momentum <= 1):
        raise BadInputError(f"norm_momentum must be above 0 and at most 1, got {momentum!r:.80}")


def check_value_gradient(value_gradient: str, variant: Variant) -> None:
    """Raise `BadInputError` unless the variant supports this gradient; VQ only has ``"selected"``."""
    if value_gradient not in ("selected", "softmax"):
        raise BadInputError(f'value_gradient must be "selected" or "softmax", got {value_gradient!r:.80}')
    if variant == "vq" and value_gradient != "selected":
        reason = "whose values are trained by regularization_loss (sec. 2.3)"
        raise BadInputError(f'value_gradient: got {value_gradient!r} with variant "vq", {reason}; use variant="sx"')


def check_temperature(temperature: float, variant: Variant, is_learned: bool) -> None:
    """Raise `BadInputError` unless distances can be divided by ``temperature``, also in float32."""
    narrow = torch.finfo(torch.float32)
    if not (is_number(temperature) and narrow.tiny <= temperature <= narrow.max):
        holds = f"float32 holds {narrow.tiny:.1e} to {narrow.max:.1e}"
        raise BadInputError(f"temperature must be a finite number above 0, got {temperature!r:.80}; {holds}")
    if variant == "vq" and temperature != 1:
        raise BadInputError(
            f'temperature: got {temperature} with variant "vq", expected 1, as it has no softmax (eq. 7)'
        )
    least, most = LEARNED
    if is_learned and not least <= temperature <= most:
        raise BadInputError(f"temperature: got {temperature!r:.80}, expected {least} to {most:g} for a learned one")


def check_learned(learn_temperature: bool, variant: Variant) -> None:
    """Raise `BadInputError` for a learned temperature of a variant without softmax."""
    if learn_temperature and variant == "vq":
        raise BadInputError(
            'learn_temperature: got True with variant "vq", expected False, as it has no softmax (eq. 7)'
        )


def check_method(variant: str, metric: str, tied: bool, distance_norm: object, ema_decay: float | None) -> None:
    """Raise `BadInputError` unless the options form a valid method."""
    if variant not in ("sx", "vq"):
        raise BadInputError(f'variant must be "sx" or "vq", got {variant!r:.80}')
    if metric not in METRICS:
        raise BadInputError(f"metric must be one of {', '.join(METRICS)}, got {metric!r:.80}")
    if distance_norm not in (True, False, "per_group"):
        raise BadInputError(f'distance_norm must be True, False or "per_group", got {distance_norm!r:.80}')
    if variant == "vq":
        _check_vq(metric, tied)
    elif ema_decay is not None:
        raise BadInputError(f'ema_decay: got {ema_decay} with variant "sx", which has no centroids; use variant="vq"')
    if ema_decay is not None and not (is_number(ema_decay) and 0 <= ema_decay < 1):
        raise BadInputError(f"ema_decay must be at least 0 and below 1, got {ema_decay!r:.80}")


def _check_vq(metric: str, tied: bool) -> None:
    if metric != "euclidean":
        reason = "a centroid represents the queries nearest to it (eq. 6)"
        raise BadInputError(
            f'metric: got {metric!r} with variant "vq", expected euclidean: {reason}; or use variant="sx"'
        )
    if not tied:
        reason = "a query receives the gradient of its value, which must be the key nearest to it (eq. 7)"
        raise BadInputError(f'tie_key_value: got False with variant "vq", expected True: {reason}; or use variant="sx"')
