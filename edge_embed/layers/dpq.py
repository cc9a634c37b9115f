"""`DPQEmbedding`: an embedding table learned as product-quantisation codes.

Forward passes in training, with p = softmax(norm(r_j) / tau), one = onehot(c_j), sg = stop gradient:

    SX   H_j = (p - sg(p - one)) V_j   or   p V_j - sg(p V_j - V_j[c_j])          (eq. 4 and 5)
    VQ   H_j = q_j - sg(q_j - V_j[c_j]),   V learns from a loss of its own         (eq. 7, sec. 2.3)

Source: "Learning Compact Embedding Layers via Differentiable Product Quantization" (ICLR 2020 submission), with two
things of the authors' released code: SX passes the straight-through one-hot to V (the first form; eq. (5) is printed as
the second), and a batch norm standardises the distances. Distances r and codes c: `edge_embed.ops.dpq_distance`; the
rows: `edge_embed.ops.dpq_straight_through`; the loss of VQ: `edge_embed.layers.regularization`; moving averages in its
place: `edge_embed.layers.moving_centroids`.
"""

from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.layers.dpq_options import (
    DistanceNorm,
    ValueGradient,
    Variant,
    check_directions,
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
from edge_embed.layers.table import Memory, checked_count
from edge_embed.ops import dpq
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
from edge_embed.ops.operators import TableOperators
from edge_embed.packed import bits as bit_packing
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.packed_form import check_form

_NORM_MOMENTUM = 0.1


@suggests_keywords
class DPQEmbedding(Centroids):
    """Drop-in for ``nn.Embedding`` whose table is learned as codes and values.

    The layer has two states. *Trainable* keeps ``query`` [n, D w], ``key`` [G, K, w] unless keys and values are tied,
    ``value`` [G, K, s], and what its options add. *Frozen* (after `freeze` or `from_packed`) keeps ``codes``, uint8
    [n, row_bytes], ``value``, and ``value_scales`` [G] where that is int8, and no longer learns. In eval mode both
    states give value rows selected by index, bit for bit what the exported file gives.

    The paper's compression ratio is 32nd / (nD log2 K + 32Kd), with 32Kd/D when subspaces are shared: queries, keys
    and whatever else is needed for training count nothing.

    Args:
        num_embeddings: rows n.
        embedding_dim: d.
        num_codes: K, 2 to 65,536 choices per group.
        num_groups: D, which must divide d. A small K with a large D works better than the reverse (sec. 3.2).
        variant: ``"sx"`` (softmax, eq. 3 to 5) or ``"vq"`` (centroids, eq. 6 and 7). With ``"vq"`` values learn from
            `regularization_loss` alone, which training has to add to the loss of the model.
        share_subspaces: one key and value matrix for all groups (appendix E.2), so G = 1 instead of D.
        padding_idx: this row is exactly zero and gets no gradient.
        distance_norm: batch norm of the distances (appendix C). True: one statistic per choice k, shared by all groups,
            as in the authors' code; ``"per_group"``: one per group and choice, which leaves fewer codes of SX unused;
            False: none, for a table that a `TiedOutput` shares, above all with SX: statistics of look-ups, which meet
            frequent rows most, and of the output layer, which takes all alike, give a row different codes.
        init_scale: queries, keys and values start uniform in [-init_scale, init_scale].
        device: as for ``nn.Embedding``.
        dtype: as for ``nn.Embedding``; export wants float32 or float16.
        metric: how near a query is to a key. SX: ``"dot"`` (eq. 3, the default), ``"euclidean"`` (squared) or
            ``"cosine"`` (table 1; of keys of two columns or more). VQ is Euclidean (eq. 6).
        tie_key_value: one matrix as keys and values. SX: no by default, as in the paper (table 12). VQ is tied:
            eq. (7) gives the query the gradient of the value, which has to be near it.
        key_dim: columns D w of queries and keys (table 1), a multiple of ``num_groups``; d by default, and always
            where keys and values are tied.
        query_init_scale: as ``init_scale``, for the queries alone.
        temperature: tau of SX (eq. 4), the attribute `temperature`.
        norm_eps: added to the variance of the distances, 1e-8 to 1. The authors' code has 1e-3; distances of small
            vectors vary by less, and SX learned less with it: AG News (`samples/ag_news/defaults.md`, five seeds)
            scored .883, and .889 with the default of 1e-5 (difference .006 ± .007, 95 %). VQ scored .896 and .894.
        norm_momentum: share of a batch in the running statistics. The authors' code has .01; the default of .1 needs
            fewer steps to follow, and scored alike.
        value_gradient: SX: the values that learn. ``"selected"``: the one of the code, as in the authors' code;
            ``"softmax"``: all of a group, each by its probability, as eq. (5) is printed, in torch on the CPU too. It
            scored alike on AG News (five seeds): .887 against .889.
        ema_decay: VQ: the centroids are moving averages of the queries that chose them (sec. 2.3), with this decay,
            .99 for example, and no longer learn from L_reg: ``value`` is then no parameter. With torch.distributed,
            every process has to take the same number of training passes, as sums go over all. Centroids move when a
            training pass begins, so that eval mode, `freeze` and `to_packed` have them as of the beginning of the last
            one. A pass that `torch.utils.checkpoint` repeats counts once and has the gradients of the first, if the
            layer comes up once in a step and is not compiled.

    Shape:
        ids of any integer dtype and any shape (*), 0-d and empty included -> (*, d).

    Raises:
        BadInputError: for impossible sizes, options that exclude each other, or ids that are not integers.
        IdOutOfRangeError: for ids below 0 or at least n (on an accelerator its own gather asserts).
    """

    query: nn.Parameter
    key: nn.Parameter
    value: Tensor
    codes: Tensor
    value_scales: Tensor | None
    running_mean: Tensor
    running_var: Tensor
    centroids: MovingCentroids | None
    # Of layers that were pickled before there were these options.
    norm_eps: float = NORM_EPS
    norm_momentum: float = _NORM_MOMENTUM
    value_gradient: ValueGradient = "selected"

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        num_codes: int,
        num_groups: int,
        variant: Variant = "sx",
        share_subspaces: bool = False,
        padding_idx: int | None = None,
        distance_norm: DistanceNorm = True,
        init_scale: float = 0.05,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        metric: Metric | None = None,
        tie_key_value: bool | None = None,
        key_dim: int | None = None,
        query_init_scale: float | None = None,
        temperature: float = 1.0,
        ema_decay: float | None = None,
        norm_eps: float = NORM_EPS,
        norm_momentum: float = _NORM_MOMENTUM,
        value_gradient: ValueGradient = "selected",
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, dtype)
        is_vq = variant == "vq"
        self.num_codes = num_codes = checked_count("num_codes", num_codes)
        self.num_groups = num_groups = checked_count("num_groups", num_groups)
        self.variant, self.share_subspaces = variant, share_subspaces
        self.distance_norm, self.init_scale = distance_norm, init_scale
        self.query_init_scale = init_scale if query_init_scale is None else query_init_scale
        self.metric: Metric = metric or ("euclidean" if is_vq else "dot")
        self.tie_key_value = is_vq if tie_key_value is None else tie_key_value
        self.key_dim = self.embedding_dim if key_dim is None else checked_count("key_dim", key_dim)
        check_switch("share_subspaces", share_subspaces)
        check_switch("tie_key_value", self.tie_key_value)
        check_sizes(self.embedding_dim, num_codes, num_groups, self.key_dim, self.tie_key_value)
        check_scale("init_scale", init_scale)
        check_scale("query_init_scale", self.query_init_scale)
        check_method(variant, self.metric, self.tie_key_value, distance_norm, ema_decay)
        check_directions(self.metric, self.key_dim, num_groups)
        check_norm(norm_eps, norm_momentum)
        check_value_gradient(value_gradient, variant)
        self.norm_eps, self.norm_momentum, self.value_gradient = norm_eps, norm_momentum, value_gradient
        self.temperature = temperature
        groups, width = 1 if share_subspaces else num_groups, self.embedding_dim // num_groups
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.query = nn.Parameter(torch.empty(self.num_embeddings, self.key_dim, **options))
        if not self.tie_key_value:
            self.key = nn.Parameter(torch.empty(groups, num_codes, self.key_dim // num_groups, **options))
        value = torch.empty(groups, num_codes, width, **options)
        if ema_decay is None:
            self.value, self.centroids = nn.Parameter(value), None
        else:
            self.register_buffer("value", value)
            self.centroids = MovingCentroids(value, float(ema_decay))
        if distance_norm:
            size = (num_groups, num_codes) if distance_norm == "per_group" else (num_codes,)
            self.register_buffer("running_mean", torch.zeros(size, **options))
            self.register_buffer("running_var", torch.ones(size, **options))
        self.register_buffer("value_scales", None)
        self.reset_parameters()

    @property
    def temperature(self) -> float:
        """Tau of the softmax of SX in training (eq. 4), above 0; it can be set at any time, and 1 is the paper's.

        Codes are those of tau = 0 whatever it is. It is no part of the state_dict, as a learning rate is none:
        whatever lowers it from step to step sets it after a resume as well.
        """
        return self._temperature

    @temperature.setter
    def temperature(self, temperature: float) -> None:
        check_temperature(temperature, self.variant)
        self._temperature = float(temperature)

    def reset_parameters(self) -> None:
        """Draw queries, keys and values anew and forget the running statistics and averages."""
        nn.init.uniform_(self.query, -self.query_init_scale, self.query_init_scale)
        if not self.tie_key_value:
            nn.init.uniform_(self.key, -self.init_scale, self.init_scale)
        nn.init.uniform_(self.value, -self.init_scale, self.init_scale)
        if self.centroids is not None:
            self.centroids.reset(self.value)
        if self.distance_norm:
            self.running_mean.zero_()
            self.running_var.fill_(1 + self._more_eps)

    @classmethod
    def from_packed(cls, packed: PackedDPQ) -> Self:
        """A frozen layer over the codes and values of ``packed`` (its arrays are copied).

        Raises:
            BadInputError: if it is of another method, or is a table of `ScaledDPQEmbedding`.
        """
        check_form(packed, PackedDPQ)
        if not packed.shape.is_plain:
            raise BadInputError(
                "packed: got a table whose rows have scales or whose last group is narrower: make it an "
                "edge_embed.layers.scaled_dpq.ScaledDPQEmbedding"
            )
        layer = cls(
            packed.num_embeddings,
            packed.embedding_dim,
            packed.num_codes,
            packed.num_groups,
            share_subspaces=packed.values.shape[0] == 1 and packed.num_groups > 1,
            padding_idx=packed.padding_idx,
            device="meta",
        )
        scales = None if packed.value_scales is None else torch.tensor(packed.value_scales)
        layer._become_frozen(torch.tensor(packed.codes), torch.tensor(packed.values), scales)
        return layer

    @property
    def frozen(self) -> bool:
        """Whether only codes and values are left."""
        return "codes" in self._buffers

    @property
    def stored_type(self) -> torch.dtype:
        """Type of the values, or of the scales of int8."""
        return self.value.dtype if self.value_scales is None else self.value_scales.dtype

    def to_packed(self) -> PackedDPQ:
        """The packed form; a trainable table recomputes the codes of all rows as in eval mode."""
        if self.frozen:
            return dpq.pack_frozen(*self._frozen_table())
        return dpq.pack(self.query, self._keys(), self.value, *self._statistics(), self.metric, self.padding_idx)

    def freeze(self, value_type: dpq.ValueType | None = None) -> Self:
        """Keep only codes and values, in place. Rows in eval mode stay bit for bit the same.

        Args:
            value_type: of the values, which it rounds: ``"float32"``, ``"float16"``, or ``"int8"`` with one scale
                for each group (for all, when subspaces are shared); rows keep the type of the layer. By default
                values stay as they are.

        Raises:
            BadInputError: if a value is not finite, also after rounding, or a type is not stored.
        """
        codes = self.codes if self.frozen else torch.from_numpy(self.to_packed().codes)
        value, scales = self.value.detach(), self.value_scales
        if value_type is not None:
            value, scales = dpq.with_value_type(value, scales, value_type)
        self._become_frozen(codes.to(self.value.device), value, scales)
        return self

    def _become_frozen(self, codes: Tensor, value: Tensor, value_scales: Tensor | None) -> None:
        for name in ("query", "key", "value", "running_mean", "running_var", "centroids"):
            if hasattr(self, name):
                delattr(self, name)
        self.register_buffer("codes", codes)
        self.register_buffer("value", value)
        self.register_buffer("value_scales", value_scales)

    def _load_from_state_dict(self, state_dict: MutableMapping[str, Any], prefix: str, *rest: Any) -> None:
        """A frozen checkpoint makes this layer frozen, so that it can be loaded by constructing the model."""
        if prefix + "codes" in state_dict:
            value: Tensor = state_dict.get(prefix + "value", self.value)
            is_int8 = value.dtype == torch.int8  # numbers of one kind cannot be copied into the other
            row_bytes = bit_packing.row_bytes(self.num_groups, bit_packing.bits_for(self.num_codes))
            sizes: dict[str, Sequence[int]] = {"codes": (self.num_embeddings, row_bytes), "value": self.value.shape}
            if is_int8:
                sizes["value_scales"] = self.value.shape[:1]
            if not self._takes(state_dict, prefix, sizes, rest):
                return
            if not self.frozen or is_int8 != (self.value_scales is not None):
                device = self.value.device
                codes = torch.zeros(sizes["codes"], dtype=torch.uint8, device=device)
                scales = torch.ones(sizes["value_scales"], dtype=torch.float32, device=device) if is_int8 else None
                self._become_frozen(codes, torch.zeros_like(self.value, dtype=value.dtype), scales)
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Follow ``.half()`` and the like with float values; int8 values keep their scales as they are."""
        scales = self.value_scales
        super()._apply(fn, recurse)
        if scales is not None and self.value_scales is not None and self.value_scales.dtype != scales.dtype:
            self.value_scales = scales.to(self.value_scales.device)
        return self

    def _table(self) -> tuple[TableOperators, tuple[Any, ...]]:
        if self.frozen:
            return dpq.FROZEN, self._frozen_table()
        weights = (self.query, self._keys(), self.value, *self._statistics())
        return dpq.TRAINABLE, (*weights, self.metric, self.padding_idx)

    def _frozen_table(self) -> tuple[Tensor, Tensor, Tensor | None, int, int | None]:
        return self.codes, self.value, self.value_scales, self.num_groups, self.padding_idx

    def _keys(self) -> Tensor:
        return self.value if self.tie_key_value else self.key

    def _statistics(self) -> tuple[Tensor | None, Tensor | None]:
        return (self.running_mean, self.running_var) if self.distance_norm else (None, None)

    @property
    def own_rows(self) -> nn.Parameter:
        """The queries [n, D w]."""
        return self.query

    def training_rows(self, query: Tensor, counts: Tensor, update: bool = True, memory: Memory | None = None) -> Tensor:
        """Rows [B, d] of queries [B, D w] by eq. (5) or (7)."""
        if self.centroids is not None and update:
            self.centroids.move(self.value)
        in_head, memory = memory is not None, {} if memory is None else memory
        if self.variant == "sx":
            weights = self._distance_weights(query, counts, update)
            soft_values = self.value_gradient == "softmax"
            return softmax_rows(query, weights, self.value, self.metric, self.temperature, memory, soft_values)

        def find() -> Tensor:
            return training_codes(query, self._distance_weights(query, counts, update), self.metric)

        code = remembered_codes(memory, find)  # [D, B]
        if self.centroids is not None and update:
            self.centroids.follow(query, code.int(), counts)
        if update:
            self._note(TrainingPass(query, code, counts, self.value), is_part=in_head)
        return centroid_rows(query, self.value, code)

    def _distance_weights(self, query: Tensor, counts: Tensor, update: bool) -> Tensor:
        """Weights of distances, [G, f, K], by the statistics of this batch if there is a norm: too much for float16."""
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
        """What running variances hold beside the variance, as operators and files know one eps alone."""
        return self.norm_eps - NORM_EPS

    @torch.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor, total: Tensor) -> None:
        dtype = self.running_mean.dtype
        step = self.norm_momentum * (total > 0).to(dtype)  # an empty batch teaches nothing
        unbiased = variance * total / (total - 1).clamp(min=1)
        self.running_mean.lerp_(mean.to(dtype), step)
        self.running_var.lerp_((unbiased + self._more_eps).to(dtype), step)

    def extra_repr(self) -> str:
        """Sizes and state, as ``print(model)`` shows them, and whatever is not as by default."""
        shown = f"{self.num_embeddings}, {self.embedding_dim}, num_codes={self.num_codes}, num_groups={self.num_groups}"
        shown += f", variant={self.variant!r}, share_subspaces={self.share_subspaces}"
        is_sx = self.variant == "sx"
        defaults: dict[str, Any] = {
            "metric": "dot" if is_sx else "euclidean",
            "tie_key_value": not is_sx,
            "key_dim": self.embedding_dim,
            "distance_norm": True,
            "norm_eps": NORM_EPS,
            "norm_momentum": _NORM_MOMENTUM,
            "value_gradient": "selected",
            "temperature": 1,
            "query_init_scale": self.init_scale,
            "padding_idx": None,
        }
        for name, default in defaults.items():
            if getattr(self, name) != default:
                shown += f", {name}={getattr(self, name)!r}"
        if not self.frozen and self.centroids is not None:
            shown += f", ema_decay={self.centroids.decay!r}"
        return f"{shown}, frozen={self.frozen}"
