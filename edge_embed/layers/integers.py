"""`IntegerEmbedding`, an embedding table trained as small integers with a scale for each row.

    row(i) = s_i q_i        q of 2 to 8 bits, rounded in every training step      `edge_embed.ops.integers`

This is quantisation-aware training: the model learns with the errors of the rounding.
"""

from collections.abc import MutableMapping
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.layers.arguments import checked_count
from edge_embed.layers.dpq_options import check_scale
from edge_embed.layers.scaled_dpq import ScaledDPQEmbedding
from edge_embed.layers.table import CompressedEmbedding, Memory
from edge_embed.ops import integers
from edge_embed.ops.operators import TableOperators
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.packed_form import check_form
from edge_embed.packed.row_scales import MAX_ROW_SCALES


@suggests_keywords
class IntegerEmbedding(CompressedEmbedding):
    """Drop-in for ``nn.Embedding`` whose rows are stored as integers of 2 to 8 bits and a scale each.

    A trainable layer holds ``latent`` [n, d], the rows before the rounding. A frozen layer holds ``stored``, the packed
    integers and scales, and can no longer be trained. Rows are the same, bit for bit, in eval mode of both states and
    in the exported file. In training they differ by the rounding of one float32 sum. Other dtypes than float32 round
    these rows once more; files hold them in float32.

    A packed row has b d bits and a byte for its scale. Rows that are 2^32 times smaller than others take a larger scale
    when the table is packed.

    Args:
        num_embeddings: number of rows n.
        embedding_dim: width d of a row.
        bits: bits b of each number, 2 to 8.
        padding_idx: id of the padding row, which is exactly zero and gets no gradient.
        init_scale: latent rows start uniform in [-init_scale, init_scale].
        device: as for ``nn.Embedding``.
        dtype: as for ``nn.Embedding``.

    Shape:
        ids of any integer dtype and any shape ``(*)``, 0-d and empty included -> ``(*, d)``.

    Raises:
        BadInputError: for impossible sizes, or ids that are not integers.
        IdOutOfRangeError: for ids below 0 or at least n (on an accelerator, its own gather asserts).
    """

    latent: nn.Parameter
    stored: ScaledDPQEmbedding | None

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        bits: int = 4,
        padding_idx: int | None = None,
        init_scale: float = 0.05,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__(num_embeddings, embedding_dim, padding_idx, dtype)
        bits = checked_count("bits", bits)
        if not integers.FEWEST_BITS <= bits <= integers.MOST_BITS:
            raise BadInputError(f"bits: got {bits}, expected {integers.FEWEST_BITS} to {integers.MOST_BITS}")
        check_scale("init_scale", init_scale)
        self.bits, self.init_scale = bits, init_scale
        self.latent = nn.Parameter(torch.empty(self.num_embeddings, self.embedding_dim, device=device, dtype=dtype))
        self.stored = None
        self.reset_parameters()

    @classmethod
    def from_dense(cls, weight: Tensor, bits: int = 4, padding_idx: int | None = None, **options: Any) -> Self:
        """Return a trainable layer whose latent rows are a copy of a dense table; the padding row becomes zero.

        Args:
            weight: float [n, d]; the layer has its dtype and device.
            bits: as for the layer.
            padding_idx: as for the layer.
            **options: further keyword arguments of the layer, such as ``mode`` of a bag.

        Raises:
            BadInputError: the weight is no such table, or has NaN or infinity.
        """
        if not isinstance(weight, Tensor) or weight.ndim != 2 or not weight.is_floating_point() or weight.is_sparse:
            shape = list(weight.shape) if isinstance(weight, Tensor) else ""
            got = f"weight: got a {type(weight).__name__} {shape}".rstrip()
            raise BadInputError(f"{got}, expected a float tensor [n, d], such as the weight of an nn.Embedding")
        n, dim = weight.shape
        layer = cls(n, dim, bits, padding_idx, device=weight.device, dtype=weight.dtype, **options)
        integers.check_finite("weight", weight)
        with torch.no_grad():
            layer.latent.copy_(weight)
            if layer.padding_idx is not None:
                layer.latent[layer.padding_idx] = 0
        return layer

    @classmethod
    def from_packed(cls, packed: PackedDPQ) -> Self:
        """Return a frozen layer with a copy of packed integers and scales.

        Raises:
            BadInputError: the table is none of rows of integers with scales.
        """
        check_form(packed, PackedDPQ)
        bits = packed.bits
        is_integers = packed.shape.num_groups == packed.embedding_dim and packed.row_scales is not None
        if not (is_integers and np.array_equal(packed.values, integers.values(bits))):
            remedy = "use edge_embed.layers.scaled_dpq.ScaledDPQEmbedding"
            raise BadInputError(f"packed: got a table of other values, expected integers with scales of rows; {remedy}")
        layer = cls(packed.num_embeddings, packed.embedding_dim, bits, packed.padding_idx, device="meta")
        layer._become_frozen(ScaledDPQEmbedding(packed))
        return layer

    def reset_parameters(self) -> None:
        """Draw new latent rows."""
        nn.init.uniform_(self.latent, -self.init_scale, self.init_scale)

    @property
    def frozen(self) -> bool:
        """Return whether the layer holds only integers and scales and can no longer be trained."""
        return self.stored is not None

    @property
    def stored_type(self) -> torch.dtype:
        """Dtype of the rows: float32."""
        return torch.float32

    @property
    def own_rows(self) -> nn.Parameter:
        """The latent rows [n, d]."""
        return self.latent

    def training_rows(self, own: Tensor, counts: Tensor, update: bool = True, memory: Memory | None = None) -> Tensor:
        """Return the rounded rows of latent rows [B, d], whose gradient passes unchanged."""
        return integers.learned_rows(own, self.bits).to(self.dtype)

    def to_packed(self) -> PackedDPQ:
        """Return the packed form."""
        if self.stored is not None:
            return self.stored.to_packed()
        return integers.pack(self.latent, self.bits, self.padding_idx)

    def freeze(self) -> Self:
        """Keep only the integers and the scales, in place. Rows in eval mode stay bit for bit the same."""
        if self.stored is None:
            self._become_frozen(ScaledDPQEmbedding(self.to_packed()).to(self.latent.device))
        return self

    def _noted(self) -> dict[str, Any]:
        return {"bits": self.bits}  # latent rows are the same for any bits

    def _become_frozen(self, stored: ScaledDPQEmbedding) -> None:
        if hasattr(self, "latent"):
            del self.latent
        self.stored = stored

    def _load_from_state_dict(self, state_dict: MutableMapping[str, Any], prefix: str, *rest: Any) -> None:
        """Make the layer frozen if the checkpoint is, so that a newly constructed model can load it."""
        if not self._is_noted(state_dict, prefix, rest):
            return
        scales = state_dict.get(prefix + "stored.row_scales")
        if scales is not None:
            count = min(max(1, len(scales)), MAX_ROW_SCALES)
            specs = integers.shape_of(self.num_embeddings, self.embedding_dim, self.bits, count).tensor_specs()
            names = {f"stored.{_NAMES.get(name, name)}": spec.shape for name, spec in specs.items()}
            if not self._takes(state_dict, prefix, names, rest):
                return
            if self.stored is None or len(self.stored.row_scales) != count:  # type: ignore[arg-type]
                latent = self.latent if self.stored is None else self.stored.value
                empty = integers.pack(torch.zeros(self.num_embeddings, self.embedding_dim), self.bits, self.padding_idx)
                stored = ScaledDPQEmbedding(empty)
                stored.row_scales = torch.ones(count)
                self._become_frozen(stored.to(latent.device))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _table(self) -> tuple[TableOperators, tuple[Any, ...]]:
        if self.stored is not None:
            return self.stored._table()
        return integers.TRAINABLE, (self.latent, self.bits, self.padding_idx)

    def extra_repr(self) -> str:
        """Return sizes and state for ``print(model)``."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}, bits={self.bits}{padding}, frozen={self.frozen}"


_NAMES = {"values": "value"}
