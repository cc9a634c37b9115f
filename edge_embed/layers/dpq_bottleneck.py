"""`DPQBottleneck`, differentiable product quantisation of any vectors inside a model.

    T(x) = [V_1[c_1], ..., V_D[c_D]],   c_j = argmax_k norm(r_j)(k),   r_j(k) the similarity of x_j and K_jk

Training passes have the gradients of `edge_embed.layers.dpq`, with x in place of the queries: eq. (4), (5) and (7).

Source: "Learning Compact Embedding Layers via Differentiable Product Quantization" (ICLR 2020 submission), sec. 2.1 and
appendix F: codes computed from vectors, not stored for symbols, serve any layer of a network.
"""

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.layers.arguments import checked_count, checked_float_type
from edge_embed.layers.dpq_mapping import NORM_MOMENTUM, DPQMapping
from edge_embed.layers.dpq_options import DistanceNorm, ValueGradient, Variant
from edge_embed.ops.autograd_state import is_recomputed
from edge_embed.ops.dpq import select
from edge_embed.ops.dpq_distance import NORM_EPS, Metric, affine, features, normalized
from edge_embed.ops.ids import check_id_range, integer_ids


@suggests_keywords
class DPQBottleneck(DPQMapping):
    """Layer that replaces each input vector by the values of its codes: D codes of log2 K bits carry everything.

    It holds ``key`` [G, K, w] unless keys and values are tied, and ``value`` [G, K, s]; G = D, or 1 for shared
    subspaces. There is no table: codes of new vectors are computed at inference too, in operators that every exporter
    of torch knows. They are computed in float32 and select the nearest key, so a runtime that rounds its inputs
    differently may choose another code for a vector between two keys.

    Args:
        embedding_dim: width d of an output.
        num_codes: K, as for `DPQEmbedding`.
        num_groups: D, which must divide the widths of outputs and inputs.
        variant: ``"sx"`` or ``"vq"``. With ``"vq"`` only `regularization_loss` trains the values; its ``commitment``
            keeps the inputs near them.
        share_subspaces: as for `DPQEmbedding`.
        distance_norm: as for `DPQEmbedding`. Statistics are those of the inputs in a training pass.
        init_scale: keys and values start uniform in [-init_scale, init_scale].
        device: as for ``nn.Linear``.
        dtype: dtype of parameters and outputs; inputs are converted to it.
        metric: as for `DPQEmbedding`.
        tie_key_value: as for `DPQEmbedding`.
        key_dim: columns D w of the inputs, if they differ from those of the outputs, with untied SX.
        temperature: as for `DPQEmbedding`.
        ema_decay: VQ: moving averages in place of L_reg, as for `DPQEmbedding`. The layer then has no parameter at
            all. Without a parameter that is trained, `regularization_loss` with a ``commitment`` counts from its second
            call on.
        norm_eps: as for `DPQEmbedding`.
        norm_momentum: as for `DPQEmbedding`.
        value_gradient: as for `DPQEmbedding`.
        learn_temperature: as for `DPQEmbedding`.

    Shape:
        float inputs ``(*, D w)``, no axis or empty axes included -> ``(*, d)``.

    Raises:
        BadInputError: for impossible sizes, options that exclude each other, or inputs of another dtype or width.
    """

    def __init__(
        self,
        embedding_dim: int,
        num_codes: int,
        num_groups: int,
        variant: Variant = "sx",
        share_subspaces: bool = False,
        distance_norm: DistanceNorm = True,
        init_scale: float = 1.0,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
        *,
        metric: Metric | None = None,
        tie_key_value: bool | None = None,
        key_dim: int | None = None,
        temperature: float = 1.0,
        ema_decay: float | None = None,
        norm_eps: float = NORM_EPS,
        norm_momentum: float = NORM_MOMENTUM,
        value_gradient: ValueGradient = "selected",
        learn_temperature: bool = False,
    ) -> None:
        super().__init__()
        dtype = checked_float_type(dtype)
        self.embedding_dim = checked_count("embedding_dim", embedding_dim)
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
        self._make_tensors(temperature, learn_temperature, ema_decay, device=device, dtype=dtype)
        self.reset_parameters()

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the values of the codes of inputs: ``(*, D w)`` -> ``(*, d)``.

        In training, inputs, keys and values get the gradients of the variant. In eval mode codes are constants, so
        gradients reach the values only.

        Raises:
            BadInputError: for inputs of another dtype or width.
        """
        if not self.training:
            return self._values(self.encode(inputs))
        query = self._queries(inputs)  # [B, D w]
        counts = torch.ones(len(query), dtype=torch.int64, device=query.device)
        rows = self.training_rows(query, counts, update=not is_recomputed())  # [B, d]
        return rows.reshape(*inputs.shape[:-1], self.embedding_dim)

    @torch.no_grad()
    def encode(self, inputs: Tensor) -> Tensor:
        """Return the codes of inputs as in eval mode: ``(*, D w)`` -> int64 ``(*, D)``; the lowest code wins a tie.

        Raises:
            BadInputError: for inputs of another dtype or width.
        """
        query = self._queries(inputs)
        wide = torch.promote_types(query.dtype, torch.float32)
        mean, variance = (None if each is None else each.to(wide) for each in self._statistics())
        weights = normalized(affine(self._keys().to(wide), self.metric), mean, variance)  # [G or D, f, K]
        with torch.autocast(query.device.type, enabled=False):  # its narrow products would give other codes
            parts = features(query.to(wide), weights.shape[1], self.metric).transpose(1, 2)  # [D, B, f]
            if len(weights) == 1:  # tflite-runtime 2.14 computes a batch of products with shared weights wrongly
                distances = (parts.flatten(0, 1) @ weights[0]).unflatten(0, parts.shape[:2])  # [D, B, K]
            else:
                distances = parts @ weights
        codes: Tensor = distances.argmax(-1)  # [D, B]
        return codes.t().reshape(*inputs.shape[:-1], self.num_groups)

    def decode(self, codes: Tensor) -> Tensor:
        """Return the values of codes: integers ``(*, D)`` -> ``(*, d)``, differentiable in the values.

        Raises:
            BadInputError: for codes that are not integers, or of another number of groups.
            IdOutOfRangeError: for codes below 0 or at least K (on an accelerator, its own gather asserts).
        """
        codes = integer_ids(codes, "codes")
        if codes.shape[-1:] != (self.num_groups,):
            raise BadInputError(f"codes: got shape {tuple(codes.shape)}, expected [*, {self.num_groups}]")
        check_id_range(codes, self.num_codes, "code")
        return self._values(codes)

    def _values(self, codes: Tensor) -> Tensor:
        return select(self.value, codes.reshape(-1, self.num_groups)).reshape(*codes.shape[:-1], self.embedding_dim)

    def _queries(self, inputs: Tensor) -> Tensor:
        """Return checked inputs as queries [B, D w]."""
        if not isinstance(inputs, Tensor):
            raise BadInputError(f"inputs must be a tensor, got a {type(inputs).__name__}: give torch.tensor(inputs)")
        if not inputs.is_floating_point() or inputs.shape[-1:] != (self.key_dim,):
            got = f"{inputs.dtype} of shape {tuple(inputs.shape)}"
            raise BadInputError(f"inputs: got {got}, expected floats of shape [*, {self.key_dim}]")
        return inputs.reshape(-1, self.key_dim).to(self.value.dtype)

    def extra_repr(self) -> str:
        """Return sizes and every option that differs from its default, for ``print(model)``."""
        return f"{self.embedding_dim}, {self._shown_options()}"
