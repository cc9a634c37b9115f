"""`DPQEmbedding`: an embedding table learned as product-quantisation codes.

Training forward passes, with p = softmax(norm(r_j)), one = onehot(c_j), sg = stop gradient:

    SX   H_j = (p - sg(p - one)) V_j                               (eq. 5, tau = 1)
    VQ   H_j = q_j - sg(q_j - V_j[c_j]),   L_reg = mean((V_j[c_j] - sg(q_j))^2)   (eq. 7)

Source: "Learning Compact Embedding Layers via Differentiable Product Quantization" (ICLR 2020
submission), with what the authors' released code adds: SX passes the straight-through one-hot to V,
and a batch norm standardises the distances. Distances and codes: `edge_embed.ops.dpq`.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.layers.table import CompressedEmbedding, check_count
from edge_embed.ops import dpq
from edge_embed.ops.operators import TableOperators
from edge_embed.packed import bits as bit_packing
from edge_embed.packed.dpq import PackedDPQ

_MAX_CODES = 65536
_NORM_MOMENTUM = 0.1


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


class DPQEmbedding(CompressedEmbedding):
    """Drop-in for ``nn.Embedding`` whose table is learned as codes and values.

    The layer has two states. *Trainable* keeps ``query`` [n, d], ``key`` [G, K, s] (SX only; VQ ties keys
    and values) and ``value`` [G, K, s]. *Frozen* (after `freeze` or `from_packed`) keeps ``codes``, uint8
    [n, row_bytes], ``value``, and ``value_scales`` [G] where that is int8, and no longer learns. In eval mode both
    states give value rows selected by index, bit for bit what the exported file gives.

    The paper's compression ratio is 32nd / (nD log2 K + 32Kd), with 32Kd/D when subspaces are shared.

    Args:
        num_embeddings: rows n.
        embedding_dim: d.
        num_codes: K, 2 to 65,536 choices per group.
        num_groups: D, which must divide d. A small K with a large D works better than the reverse (sec. 3.2).
        variant: ``"sx"`` (softmax, eq. 3 to 5) or ``"vq"`` (centroids, eq. 6 and 7). With ``"vq"`` the layer
            adds the gradient of L_reg (weight 1) to the values by itself, so that no extra loss term is
            needed; it does not follow a scaled loss.
        share_subspaces: one key and value matrix for all groups (appendix E.2), so G = 1 instead of D.
        padding_idx: this row is exactly zero and gets no gradient.
        distance_norm: batch norm of the distances, one statistic per choice k.
        init_scale: queries, keys and values start uniform in [-init_scale, init_scale].
        device: as for ``nn.Embedding``.
        dtype: as for ``nn.Embedding``; export wants float32 or float16.

    Shape:
        ids of any integer dtype and any shape (*), 0-d and empty included -> (*, d).

    Raises:
        BadInputError: for impossible sizes, or ids that are not integers.
        IdOutOfRangeError: for ids below 0 or at least n (on an accelerator its own gather asserts).
    """

    query: nn.Parameter
    key: nn.Parameter
    value: Tensor
    codes: Tensor
    value_scales: Tensor | None
    running_mean: Tensor
    running_var: Tensor

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        num_codes: int,
        num_groups: int,
        variant: dpq.Variant = "sx",
        share_subspaces: bool = False,
        padding_idx: int | None = None,
        distance_norm: bool = True,
        init_scale: float = 0.05,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, dtype)
        self.num_codes, self.num_groups = num_codes, num_groups
        self.variant, self.share_subspaces = variant, share_subspaces
        self.distance_norm, self.init_scale = distance_norm, init_scale
        self._check_sizes()
        if not (isinstance(init_scale, int | float) and 0 <= init_scale < math.inf):
            raise BadInputError(f"init_scale must be a finite number of at least 0, got {init_scale!r:.80}")
        groups, width = 1 if share_subspaces else num_groups, embedding_dim // num_groups
        options: dict[str, Any] = {"device": device, "dtype": dtype}
        self.query = nn.Parameter(torch.empty(num_embeddings, embedding_dim, **options))
        if variant == "sx":
            self.key = nn.Parameter(torch.empty(groups, num_codes, width, **options))
        self.value = nn.Parameter(torch.empty(groups, num_codes, width, **options))
        if distance_norm:
            self.register_buffer("running_mean", torch.zeros(num_codes, **options))
            self.register_buffer("running_var", torch.ones(num_codes, **options))
        self.register_buffer("value_scales", None)
        self.reset_parameters()

    def _check_sizes(self) -> None:
        check_count("num_codes", self.num_codes)
        check_count("num_groups", self.num_groups)
        if not 2 <= self.num_codes <= _MAX_CODES:
            raise BadInputError(f"num_codes must be 2 to {_MAX_CODES}, got {self.num_codes}")
        if self.embedding_dim % self.num_groups:
            raise BadInputError(f"num_groups must divide embedding_dim, got {self.num_groups} and {self.embedding_dim}")
        if self.variant not in ("sx", "vq"):
            raise BadInputError(f'variant must be "sx" or "vq", got {self.variant!r}')

    def reset_parameters(self) -> None:
        """Draw queries, keys and values anew and forget the running statistics."""
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -self.init_scale, self.init_scale)
        if self.distance_norm:
            self.running_mean.zero_()
            self.running_var.fill_(1)

    @classmethod
    def from_packed(cls, packed: PackedDPQ) -> Self:
        """A frozen layer over the codes and values of ``packed`` (its arrays are copied)."""
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
        return dpq.pack(self.query, self._keys(), self.value, *self._statistics(), self.variant, self.padding_idx)

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
        for name in ("query", "key", "value", "running_mean", "running_var"):
            if hasattr(self, name):
                delattr(self, name)
        self.register_buffer("codes", codes)
        self.register_buffer("value", value)
        self.register_buffer("value_scales", value_scales)

    def _load_from_state_dict(self, state_dict: Mapping[str, Any], prefix: str, *rest: Any) -> None:
        """A frozen checkpoint makes this layer frozen, so that it can be loaded by constructing the model."""
        value: Tensor = state_dict.get(prefix + "value", self.value)
        is_int8 = value.dtype == torch.int8  # numbers of one kind cannot be copied into the other
        if prefix + "codes" in state_dict and (not self.frozen or is_int8 != (self.value_scales is not None)):
            device = self.value.device
            row_bytes = bit_packing.row_bytes(self.num_groups, bit_packing.bits_for(self.num_codes))
            codes = torch.zeros(self.num_embeddings, row_bytes, dtype=torch.uint8, device=device)
            scales = torch.ones(self.value.shape[0], dtype=torch.float32, device=device) if is_int8 else None
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
        return dpq.TRAINABLE, (*weights, self.variant, self.padding_idx)

    def _frozen_table(self) -> tuple[Tensor, Tensor, Tensor | None, int, int | None]:
        return self.codes, self.value, self.value_scales, self.num_groups, self.padding_idx

    def _keys(self) -> Tensor:
        return self.key if self.variant == "sx" else self.value

    def _statistics(self) -> tuple[Tensor | None, Tensor | None]:
        return (self.running_mean, self.running_var) if self.distance_norm else (None, None)

    def training_rows(self, ids: Tensor, share: float = 1.0, update: bool = True) -> Tensor:
        """Rows [B, d] of ids int64 [B] by eq. (5) or (7)."""
        kept = torch.ones_like(ids, dtype=torch.bool)
        if self.padding_idx is not None:
            kept = ids != self.padding_idx
        query = functional.embedding(ids, self.query)  # [B, d]
        with torch.set_grad_enabled(self.variant == "sx" and torch.is_grad_enabled()):  # VQ learns past the codes
            response = dpq.responses(query, self._keys(), self.variant)  # [D, B, K]
            if self.distance_norm:
                response = self._normalized(response, kept, update)
        code = response.max(dim=-1).indices  # [D, B]
        if self.variant == "sx":
            return self._softmax_rows(response, code)
        return self._centroid_rows(query, code, kept, share)

    def _normalized(self, response: Tensor, kept: Tensor, update: bool) -> Tensor:
        """Distances [D, B, K] by the statistics of this batch; float16 could not even count them."""
        wide = response.to(torch.promote_types(response.dtype, torch.float32))
        mean, variance = self._batch_statistics(wide, kept, update)
        return ((wide - mean) * dpq.inverse_deviation(variance)).to(response.dtype)

    def _batch_statistics(self, response: Tensor, kept: Tensor, update: bool) -> tuple[Tensor, Tensor]:
        """Mean and variance [K] over groups and the ids that are no padding; the running ones follow them."""
        weight = kept.to(response.dtype).unsqueeze(-1)  # [B, 1]
        count = self.num_groups * weight.sum()
        mean = (response * weight).sum((0, 1)) / count.clamp(min=1)
        variance = ((response - mean).square() * weight).sum((0, 1)) / count.clamp(min=1)
        if update:
            self._follow(mean, variance, count)
        return mean, variance

    @torch.no_grad()
    def _follow(self, mean: Tensor, variance: Tensor, count: Tensor) -> None:
        dtype = self.running_mean.dtype
        step = _NORM_MOMENTUM * (count > 0).to(dtype)  # an empty batch teaches nothing
        unbiased = variance * count / (count - 1).clamp(min=1)
        self.running_mean.lerp_(mean.to(dtype), step)
        self.running_var.lerp_(unbiased.to(dtype), step)

    def _softmax_rows(self, response: Tensor, code: Tensor) -> Tensor:
        """SX, eq. (5): response [D, B, K], code [D, B] -> [B, d]."""
        probability = response.softmax(-1)
        one_hot = functional.one_hot(code, self.num_codes).to(probability.dtype)
        choice = probability + (one_hot - probability).detach()
        return (choice @ self.value).transpose(0, 1).flatten(1)  # [D, B, s] -> [B, d]

    def _centroid_rows(self, query: Tensor, code: Tensor, kept: Tensor, share: float) -> Tensor:
        """VQ, eq. (7): query [B, d], code [D, B] -> [B, d]."""
        centroids = dpq.select(self.value, code.t())  # [B, d]
        distance = (centroids - query.detach()).square() * kept.unsqueeze(-1)
        loss = share * distance.sum() / (self.embedding_dim * kept.sum()).clamp(min=1)
        straight_through = query + (centroids - query).detach()
        return _AddLoss.apply(straight_through, loss)  # type: ignore[no-untyped-call, no-any-return]

    def extra_repr(self) -> str:
        """Sizes and state, as ``print(model)`` shows them."""
        optional = f", padding_idx={self.padding_idx}" if self.padding_idx is not None else ""
        return (
            f"{self.num_embeddings}, {self.embedding_dim}, num_codes={self.num_codes}, "
            f"num_groups={self.num_groups}, variant={self.variant!r}, "
            f"share_subspaces={self.share_subspaces}{optional}, frozen={self.frozen}"
        )
