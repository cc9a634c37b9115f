"""`DPQEmbedding`, an embedding table trained as product-quantisation codes.

Forward passes in training, with p = softmax(norm(r_j) / tau), one = onehot(c_j), sg = stop gradient:

    SX   H_j = (p - sg(p - one)) V_j   or   p V_j - sg(p V_j - V_j[c_j])          (eq. 4 and 5)
    VQ   H_j = q_j - sg(q_j - V_j[c_j]),   V is trained by a loss of its own       (eq. 7, sec. 2.3)

Source: "Learning Compact Embedding Layers via Differentiable Product Quantization" (ICLR 2020 submission). Two details
follow the authors' released code. SX passes the straight-through one-hot to V (the first form); the paper prints the
second form as eq. (5). A batch norm standardises the distances.

Related modules: `edge_embed.layers.dpq_mapping` (keys, values and the forward pass),
`edge_embed.ops.dpq_distance` (distances r and codes c), `edge_embed.ops.dpq_straight_through` (rows),
`edge_embed.layers.regularization` (loss of VQ), `edge_embed.layers.moving_centroids` (moving averages in its place).
"""

from collections.abc import Callable, MutableMapping, Sequence
from contextlib import nullcontext
from typing import Any, Self

import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.layers.dpq_mapping import NORM_MOMENTUM, DPQMapping
from edge_embed.layers.dpq_options import DistanceNorm, ValueGradient, Variant, check_scale
from edge_embed.layers.regularization import TrainingPass
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.ops import dpq
from edge_embed.ops.autograd_state import is_recomputed
from edge_embed.ops.dpq_distance import NORM_EPS, Metric
from edge_embed.ops.operators import TableOperators
from edge_embed.packed import bits as bit_packing
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.packed_form import check_form


@suggests_keywords
class DPQEmbedding(DPQMapping, CompressedEmbedding):
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
    codes: Tensor
    value_scales: Tensor | None
    learns = CompressedEmbedding.learns

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
        norm_momentum: float = NORM_MOMENTUM,
        value_gradient: ValueGradient = "selected",
        learn_temperature: bool = False,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, dtype)
        self._set_options(
            num_codes,
            num_groups,
            variant,
            share_subspaces,
            distance_norm,
            init_scale,
            metric,
            tie_key_value,
            key_dim,
            ema_decay,
            norm_eps,
            norm_momentum,
            value_gradient,
        )
        self.query_init_scale = init_scale if query_init_scale is None else query_init_scale
        check_scale("query_init_scale", self.query_init_scale)
        self.query = nn.Parameter(torch.empty(self.num_embeddings, self.key_dim, device=device, dtype=dtype))
        self._make_tensors(temperature, learn_temperature, ema_decay, device=device, dtype=dtype)
        self.register_buffer("value_scales", None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw new queries, keys and values, and reset the running statistics and moving averages."""
        nn.init.uniform_(self.query, -self.query_init_scale, self.query_init_scale)
        super().reset_parameters()

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

    @property
    def own_rows(self) -> nn.Parameter:
        """The queries [n, D w]."""
        return self.query

    def training_logits(self, hidden: Tensor, bias: Tensor | None = None) -> Tensor:
        """Return the logits of training: all rows form one step of the moving averages and one training pass."""
        earlier, self._passes = self._passes, ()
        with nullcontext() if self.centroids is None or is_recomputed() else self.centroids.one_step():
            logits = super().training_logits(hidden, bias)
        parts, self._passes = self._passes, earlier
        if parts:
            codes, counts = [part.code for part in parts], [part.counts for part in parts]
            self._note(TrainingPass(self.query, torch.cat(codes, 1), torch.cat(counts), self.value))
        return logits

    def extra_repr(self) -> str:
        """Return sizes, state and every option that differs from its default, for ``print(model)``."""
        shown = f"{self.num_embeddings}, {self.embedding_dim}, {self._shown_options()}"
        for name, default in {"query_init_scale": self.init_scale, "padding_idx": None}.items():
            if getattr(self, name) != default:
                shown += f", {name}={getattr(self, name)!r}"
        return f"{shown}, frozen={self.frozen}"
