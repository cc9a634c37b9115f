"""`DPQEmbedding`, an embedding table trained as product-quantisation codes.

Forward passes in training, with p = softmax(norm(r_j) / tau), one = onehot(c_j), sg = stop gradient:

    SX   H_j = (p - sg(p - one)) V_j   or   p V_j - sg(p V_j - V_j[c_j])          (eq. 4 and 5)
    VQ   H_j = q_j - sg(q_j - V_j[c_j]),   V is trained by a loss of its own       (eq. 7, sec. 2.3)

Source: "Learning Compact Embedding Layers via Differentiable Product Quantization" (ICLR 2020 submission). Two details
follow the authors' released code. SX passes the straight-through one-hot to V (the first form); the paper prints the
second form as eq. (5). A batch norm standardises the distances.

Related modules: `edge_embed.ops.dpq_distance` (distances r and codes c), `edge_embed.ops.dpq_straight_through` (rows),
`edge_embed.layers.regularization` (loss of VQ), `edge_embed.layers.moving_centroids` (moving averages in its place).
"""

import math
from collections.abc import Callable, MutableMapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
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
from edge_embed.layers.table import Memory
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
    """Drop-in for ``nn.Embedding`` whose table is stored as codes and codebooks (values).

    The layer has two states. A trainable layer holds ``query`` [n, D w], ``key`` [G, K, w] unless keys and values are
    tied, ``value`` [G, K, s], and the state of its options. A frozen layer (after `freeze` or `from_packed`) holds
    ``codes``, uint8 [n, row_bytes], ``value``, and ``value_scales`` [G] if ``value`` is int8. It can no longer be
    trained. In eval mode both states return value rows selected by code, bit for bit as the exported file does.

    The paper's compression ratio is 32nd / (nD log2 K + 32Kd), with 32Kd/D for shared subspaces. Queries, keys and
    other training state are not counted.

    Args:
        num_embeddings: number of rows n.
        embedding_dim: width d of a row.
        num_codes: K, the number of codes per group, 2 to 65,536.
        num_groups: D, which must divide d. A small K with a large D works better than the reverse (sec. 3.2).
        variant: ``"sx"`` (softmax, eq. 3 to 5) or ``"vq"`` (centroids, eq. 6 and 7). With ``"vq"`` only
            `regularization_loss` trains the values, so add it to the loss of the model.
        share_subspaces: whether all groups share one key and value matrix (appendix E.2): G = 1 instead of D.
        padding_idx: id of the padding row, which is exactly zero and gets no gradient.
        distance_norm: batch norm of the distances (appendix C). True: one statistic per code k, shared by all groups,
            as in the authors' code. ``"per_group"``: one per group and code, which leaves fewer codes of SX unused.
            False: no norm. Use False for a table that a `TiedOutput` shares, above all with SX: lookups weight
            frequent rows and the output layer weights all rows alike, so their statistics give a row different codes.
        init_scale: queries, keys and values start uniform in [-init_scale, init_scale].
        device: as for ``nn.Embedding``.
        dtype: as for ``nn.Embedding``; export requires float32 or float16.
        metric: similarity of a query and a key. SX: ``"dot"`` (eq. 3, the default), ``"euclidean"`` (squared) or
            ``"cosine"`` (table 1; requires keys of two or more columns). VQ is Euclidean (eq. 6).
        tie_key_value: whether keys and values are one matrix. The default for SX is False, as in the paper (table 12).
            VQ is always tied: eq. (7) gives the query the gradient of the value, which has to be near it.
        key_dim: columns D w of queries and keys (table 1), a multiple of ``num_groups``. The default is d, which is
            required for tied keys and values.
        query_init_scale: as ``init_scale``, for the queries only.
        temperature: tau of SX (eq. 4), the attribute `temperature`.
        learn_temperature: SX: whether tau is trained, from ``temperature`` on: its logarithm is the parameter
            ``log_temperature``. Rows do not depend on tau, but its gradient is that of p V_j in eq. (5). It stays
            from .001 to 1000.
        norm_eps: constant added to the variance of the distances, 1e-8 to 1. The authors' code uses 1e-3. Distances of
            small vectors vary by less, so SX trained worse with it: on AG News (`samples/ag_news/defaults.md`, five
            seeds) SX scored .883 with 1e-3 and .889 with the default of 1e-5 (difference .006 ± .007, 95 %). VQ scored
            .896 and .894.
        norm_momentum: weight of a batch in the running statistics. The authors' code uses .01. The default of .1
            adapts in fewer steps and scored alike.
        value_gradient: SX: values that get a gradient. ``"selected"``: the value of the code, as in the authors' code.
            ``"softmax"``: all values of a group, weighted by probability, as eq. (5) is printed; it runs in torch on
            the CPU too. Both scored alike on AG News (five seeds): .889 with ``"selected"``, .887 with ``"softmax"``.
        ema_decay: VQ: train the centroids as moving averages of the queries that chose them (sec. 2.3) with this
            decay, for example .99, instead of by L_reg; ``value`` is then not a parameter. With torch.distributed,
            every process must run the same number of training passes, because sums are taken over all processes.
            Centroids move at the beginning of a training pass. Eval mode, `freeze` and `to_packed` therefore use the
            centroids of the beginning of the last pass. A pass that `torch.utils.checkpoint` repeats counts once and
            has the gradients of the first, if the layer is used once in a step and is not compiled.

    Shape:
        ids of any integer dtype and any shape ``(*)``, 0-d and empty included -> ``(*, d)``.

    Raises:
        BadInputError: for impossible sizes, options that exclude each other, or ids that are not integers.
        IdOutOfRangeError: for ids below 0 or at least n (on an accelerator, its own gather asserts).
    """

    query: nn.Parameter
    key: nn.Parameter
    value: Tensor
    codes: Tensor
    value_scales: Tensor | None
    running_mean: Tensor
    running_var: Tensor
    centroids: MovingCentroids | None
    log_temperature: nn.Parameter
    # Defaults for layers that were pickled before these options existed.
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
        learn_temperature: bool = False,
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
        check_switch("learn_temperature", learn_temperature)
        check_learned(learn_temperature, variant)
        groups, width = 1 if share_subspaces else num_groups, self.embedding_dim // num_groups
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        if learn_temperature:
            self.log_temperature = nn.Parameter(torch.empty((), **options))
        self.temperature = temperature
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
        """Draw new queries, keys and values, and reset the running statistics and moving averages."""
        nn.init.uniform_(self.query, -self.query_init_scale, self.query_init_scale)
        if not self.tie_key_value:
            nn.init.uniform_(self.key, -self.init_scale, self.init_scale)
        nn.init.uniform_(self.value, -self.init_scale, self.init_scale)
        if self.centroids is not None:
            self.centroids.reset(self.value)
        if self.distance_norm:
            self.running_mean.zero_()
            self.running_var.fill_(1 + self._more_eps)
        self.temperature = self._temperature

    @classmethod
    def from_packed(cls, packed: PackedDPQ) -> Self:
        """Return a frozen layer with a copy of the codes and values of ``packed``.

        Raises:
            BadInputError: if ``packed`` is a table of another method or of `ScaledDPQEmbedding`.
        """
        check_form(packed, PackedDPQ)
        if not packed.shape.is_plain:
            raise BadInputError(
                "packed: got a table with row scales or a narrower last group, expected one without; use "
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
        """Return whether the layer holds only codes and values and can no longer be trained."""
        return "codes" in self._buffers

    @property
    def stored_type(self) -> torch.dtype:
        """Dtype of the values, or of the scales if values are int8."""
        return self.value.dtype if self.value_scales is None else self.value_scales.dtype

    def to_packed(self) -> PackedDPQ:
        """Return the packed form. A trainable table computes the codes of all rows as in eval mode."""
        if self.frozen:
            return dpq.pack_frozen(*self._frozen_table())
        return dpq.pack(self.query, self._keys(), self.value, *self._statistics(), self.metric, self.padding_idx)

    def freeze(self, value_type: dpq.ValueType | None = None) -> Self:
        """Keep only the codes and the values, in place. Rows in eval mode stay bit for bit the same by default.

        Args:
            value_type: dtype that the values are rounded to: ``"float32"``, ``"float16"``, or ``"int8"`` with one scale
                for each group (one for all groups if subspaces are shared). By default values stay the same. Rows keep
                the dtype of the layer.

        Returns:
            The layer itself.

        Raises:
            BadInputError: if a value is not finite before or after rounding, or a dtype cannot be stored.
        """
        codes = self.codes if self.frozen else torch.from_numpy(self.to_packed().codes)
        value, scales = self.value.detach(), self.value_scales
        if value_type is not None:
            value, scales = dpq.with_value_type(value, scales, value_type)
        self._become_frozen(codes.to(self.value.device), value, scales)
        return self

    def _become_frozen(self, codes: Tensor, value: Tensor, value_scales: Tensor | None) -> None:
        for name in ("query", "key", "value", "running_mean", "running_var", "centroids", "log_temperature"):
            if hasattr(self, name):
                delattr(self, name)
        self.register_buffer("codes", codes)
        self.register_buffer("value", value)
        self.register_buffer("value_scales", value_scales)

    def _load_from_state_dict(self, state_dict: MutableMapping[str, Any], prefix: str, *rest: Any) -> None:
        """Make the layer frozen if the checkpoint is, so that a newly constructed model can load it."""
        if prefix + "codes" in state_dict:
            value: Tensor = state_dict.get(prefix + "value", self.value)
            is_int8 = value.dtype == torch.int8  # int8 and float numbers cannot be copied into each other
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
        """Apply ``.half()`` and similar to float values; int8 values keep their scales unchanged."""
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
        step = self.norm_momentum * (total > 0).to(dtype)  # an empty batch changes nothing
        unbiased = variance * total / (total - 1).clamp(min=1)
        self.running_mean.lerp_(mean.to(dtype), step)
        self.running_var.lerp_((unbiased + self._more_eps).to(dtype), step)

    def extra_repr(self) -> str:
        """Return sizes, state and every option that differs from its default, for ``print(model)``."""
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
            "learn_temperature": False,
            "query_init_scale": self.init_scale,
            "padding_idx": None,
        }
        for name, default in defaults.items():
            if getattr(self, name) != default:
                shown += f", {name}={getattr(self, name)!r}"
        if not self.frozen and self.centroids is not None:
            shown += f", ema_decay={self.centroids.decay!r}"
        return f"{shown}, frozen={self.frozen}"
