"""`DPQMapping`: keys, values, norm and temperature of DPQ, and the rows to which they map queries in training.

Base of `edge_embed.layers.dpq.DPQEmbedding`, whose queries are the rows of a parameter, and of
`edge_embed.layers.dpq_bottleneck.DPQBottleneck`, whose queries are its inputs.

Source: "Learning Compact Embedding Layers via Differentiable Product Quantization" (ICLR 2020 submission), sec. 2.
"""

import math
from collections.abc import MutableMapping
from typing import Any

import torch
from torch import Tensor, nn

from edge_embed.layers.arguments import checked_count
from edge_embed.layers.dpq_options import (
    LEARNED,
    DistanceNorm,
    ValueGradient,
    Variant,
    check_directions,
    check_learned,
    check_method,
    check_norm,
    check_scale,
    check_sizes,
    check_switch,
    check_temperature,
    check_value_gradient,
)
from edge_embed.layers.moving_centroids import MovingCentroids
from edge_embed.layers.regularization import Centroids, TrainingPass
from edge_embed.ops.dpq_distance import (
    NORM_EPS,
    Metric,
    affine,
    batch_statistics,
    normalized,
    remembered_codes,
    training_codes,
)
from edge_embed.ops.dpq_straight_through import centroid_rows, softmax_rows

NORM_MOMENTUM = 0.1


class DPQMapping(Centroids):
    """Base of the layers of DPQ: ``key`` [G, K, w] unless keys and values are tied, ``value`` [G, K, s], their norm.

    The options are those of `DPQEmbedding`, which explains them.
    """

    embedding_dim: int
    key: nn.Parameter
    value: Tensor
    running_mean: Tensor
    running_var: Tensor
    centroids: MovingCentroids | None
    log_temperature: nn.Parameter
    # Defaults for layers that were pickled before these options existed.
    norm_eps: float = NORM_EPS
    norm_momentum: float = NORM_MOMENTUM
    value_gradient: ValueGradient = "selected"

    def _set_options(
        self,
        num_codes: int,
        num_groups: int,
        variant: Variant,
        share_subspaces: bool,
        distance_norm: DistanceNorm,
        init_scale: float,
        metric: Metric | None,
        tie_key_value: bool | None,
        key_dim: int | None,
        ema_decay: float | None,
        norm_eps: float,
        norm_momentum: float,
        value_gradient: ValueGradient,
    ) -> None:
        """Check and store the options of a layer that has an ``embedding_dim``."""
        is_vq = variant == "vq"
        self.num_codes = checked_count("num_codes", num_codes)
        self.num_groups = checked_count("num_groups", num_groups)
        self.variant, self.share_subspaces = variant, share_subspaces
        self.distance_norm, self.init_scale = distance_norm, init_scale
        self.metric: Metric = metric or ("euclidean" if is_vq else "dot")
        self.tie_key_value = is_vq if tie_key_value is None else tie_key_value
        self.key_dim = self.embedding_dim if key_dim is None else checked_count("key_dim", key_dim)
        check_switch("share_subspaces", share_subspaces)
        check_switch("tie_key_value", self.tie_key_value)
        check_sizes(self.embedding_dim, self.num_codes, self.num_groups, self.key_dim, self.tie_key_value)
        check_scale("init_scale", init_scale)
        check_method(variant, self.metric, self.tie_key_value, distance_norm, ema_decay)
        check_directions(self.metric, self.key_dim, self.num_groups)
        check_norm(norm_eps, norm_momentum)
        check_value_gradient(value_gradient, variant)
        self.norm_eps, self.norm_momentum, self.value_gradient = norm_eps, norm_momentum, value_gradient

    def _make_tensors(
        self, temperature: float, learn_temperature: bool, ema_decay: float | None, **options: Any
    ) -> None:
        """Register parameters and buffers, not yet initialised; ``options`` are their ``device`` and ``dtype``."""
        check_switch("learn_temperature", learn_temperature)
        check_learned(learn_temperature, self.variant)
        if learn_temperature:
            self.log_temperature = nn.Parameter(torch.empty((), **options))
        self.temperature = temperature
        groups, width = 1 if self.share_subspaces else self.num_groups, self.embedding_dim // self.num_groups
        if not self.tie_key_value:
            self.key = nn.Parameter(torch.empty(groups, self.num_codes, self.key_dim // self.num_groups, **options))
        value = torch.empty(groups, self.num_codes, width, **options)
        if ema_decay is None:
            self.value, self.centroids = nn.Parameter(value), None
        else:
            self.register_buffer("value", value)
            self.centroids = MovingCentroids(value, float(ema_decay))
        if self.distance_norm:
            size = (self.num_groups, self.num_codes) if self.distance_norm == "per_group" else (self.num_codes,)
            self.register_buffer("running_mean", torch.zeros(size, **options))
            self.register_buffer("running_var", torch.ones(size, **options))

    @property
    def temperature(self) -> float:
        """Temperature tau of the softmax of SX in training (eq. 4), above 0; the paper uses 1.

        It can be set at any time. Codes are those of tau = 0 for every temperature. Unless it is learned, it is not
        part of the state_dict, like a learning rate: code that changes it must also set it after a resume.
        """
        learned = self._learned_temperature
        return self._temperature if learned is None else learned.item()

    @temperature.setter
    def temperature(self, temperature: float) -> None:
        check_temperature(temperature, self.variant, self.learn_temperature)
        self._temperature = float(temperature)
        if self.learn_temperature:
            nn.init.constant_(self.log_temperature, math.log(temperature))

    @property
    def learn_temperature(self) -> bool:
        """Return whether the temperature is a parameter; that of a frozen layer is none."""
        return "log_temperature" in self._parameters

    @property
    def _learned_temperature(self) -> Tensor | None:
        """The temperature as a function of its parameter, a scalar of at least float32, if it is learned."""
        if not self.learn_temperature:
            return None
        wide = torch.promote_types(self.log_temperature.dtype, torch.float32)
        return self.log_temperature.to(wide).exp().clamp(*LEARNED)

    def reset_parameters(self) -> None:
        """Draw new keys and values, and reset the temperature, the running statistics and moving averages."""
        if not self.tie_key_value:
            nn.init.uniform_(self.key, -self.init_scale, self.init_scale)
        nn.init.uniform_(self.value, -self.init_scale, self.init_scale)
        if self.centroids is not None:
            self.centroids.reset(self.value)
        self._reset_statistics()
        self.temperature = self._temperature

    def _reset_statistics(self) -> None:
        if self.distance_norm:
            self.running_mean.zero_()
            self.running_var.fill_(1 + self._more_eps)

    def _keys(self) -> Tensor:
        return self.value if self.tie_key_value else self.key

    def _statistics(self) -> tuple[Tensor | None, Tensor | None]:
        return (self.running_mean, self.running_var) if self.distance_norm else (None, None)

    def training_rows(
        self, query: Tensor, counts: Tensor, update: bool = True, memory: MutableMapping[str, Tensor] | None = None
    ) -> Tensor:
        """Return the rows [B, d] of queries [B, D w] by eq. (5) or (7)."""
        if self.centroids is not None and update:
            self.centroids.move(self.value)
        is_output_layer, memory = memory is not None, {} if memory is None else memory
        if self.variant == "sx":
            weights, learned = self._distance_weights(query, counts, update), self._learned_temperature
            temperature = self.temperature if learned is None else 1.0
            weights = weights if learned is None else weights / learned  # in which distances are linear
            soft_values = self.value_gradient == "softmax"
            return softmax_rows(query, weights, self.value, self.metric, temperature, memory, soft_values)

        def find() -> Tensor:
            return training_codes(query, self._distance_weights(query, counts, update), self.metric)

        code = remembered_codes(memory, find)  # [D, B]
        if self.centroids is not None and update:
            self.centroids.follow(query, code.int(), counts)
        if update:
            self._note(TrainingPass(query, code, counts, self.value), is_part=is_output_layer)
        return centroid_rows(query, self.value, code)

    def _distance_weights(self, query: Tensor, counts: Tensor, update: bool) -> Tensor:
        """Return the weights of the distances, [G, f, K], normalised by this batch if there is a norm.

        They are at least float32 with a norm: float16 is too narrow for it.
        """
        wide = torch.promote_types(query.dtype, torch.float32) if self.distance_norm else query.dtype
        weights = affine(self._keys().to(wide), self.metric)
        if self.distance_norm:
            per_group = self.distance_norm == "per_group"
            mean, variance, total = batch_statistics(query, weights, self.metric, counts, per_group)
            if update:
                self._follow(mean, variance, total)
            weights = normalized(weights, mean, variance + self._more_eps)
        return weights

    @property
    def _more_eps(self) -> float:
        """Amount added to running variances, because operators and files have one fixed eps."""
        return self.norm_eps - NORM_EPS

    @torch.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor, total: Tensor) -> None:
        dtype = self.running_mean.dtype
        unbiased = variance * total / (total - 1).clamp(min=1)
        found = mean.to(dtype), (unbiased + self._more_eps).to(dtype)
        # An empty batch changes nothing, nor does one with numbers that are not finite, as mixed precision makes them.
        is_usable = (total > 0) & torch.stack(found).isfinite().all()
        for running, new in zip((self.running_mean, self.running_var), found, strict=True):
            running.copy_(torch.where(is_usable, running.lerp(new, self.norm_momentum), running))

    def _shown_options(self) -> str:
        """Return the variant and every option that differs from its default, for ``print(model)``."""
        is_sx = self.variant == "sx"
        defaults: dict[str, Any] = {
            "metric": "dot" if is_sx else "euclidean",
            "tie_key_value": not is_sx,
            "key_dim": self.embedding_dim,
            "distance_norm": True,
            "norm_eps": NORM_EPS,
            "norm_momentum": NORM_MOMENTUM,
            "value_gradient": "selected",
            "temperature": 1,
            "learn_temperature": False,
        }
        shown = f"num_codes={self.num_codes}, num_groups={self.num_groups}"
        shown += f", variant={self.variant!r}, share_subspaces={self.share_subspaces}"
        for name, default in defaults.items():
            if getattr(self, name) != default:
                shown += f", {name}={getattr(self, name)!r}"
        centroids = getattr(self, "centroids", None)  # a frozen layer has no such attribute
        return shown if centroids is None else f"{shown}, ema_decay={centroids.decay!r}"
