"""`TieredEmbedding`: frequent rows of many bits, rare rows of few, as `edge-embed compress` makes them; not trainable.

row(id) = row of tier(id) at place(id)                             `edge_embed.packed.tier_map`
"""

from typing import Any, Self

import torch

from edge_embed.layers.stored import StoredEmbedding
from edge_embed.ops import tiered
from edge_embed.ops.operators import TableOperators
from edge_embed.packed.packed_form import check_form
from edge_embed.packed.tiered import PackedTiered
from edge_embed.packed.tiered_shape import TENSORS, tensor_name


class TieredEmbedding(StoredEmbedding):
    """Frozen ``nn.Embedding`` over a packed tiered table, whose arrays it holds by their packed names.

    Args:
        packed: the table; its arrays are copied.

    Shape:
        ids of any integer dtype and any shape ``(*)``, 0-d and empty included -> float32 ``(*, d)``.

    Raises:
        BadInputError: for a table of another method, or ids that are not integers.
        IdOutOfRangeError: for ids below 0 or at least n.
    """

    def __init__(self, packed: PackedTiered) -> None:
        check_form(packed, PackedTiered)
        super().__init__(packed.num_embeddings, packed.embedding_dim, packed.padding_idx)
        self.num_groups = [tier.num_groups for tier in packed.tiers]
        for name, array in packed.tensors().items():
            self.register_buffer(name, torch.tensor(array))

    @classmethod
    def from_packed(cls, packed: PackedTiered) -> Self:
        """Construct the layer from a packed table, as the layers of other methods do."""
        return cls(packed)

    @property
    def stored_type(self) -> torch.dtype:
        """Dtype of the rows: float32."""
        return torch.float32

    def to_packed(self) -> PackedTiered:
        """Return the packed form of the table."""
        return tiered.pack(*self._arguments())

    def _table(self) -> tuple[TableOperators, tuple[Any, ...]]:
        return tiered.TIERED, self._arguments()

    def _arguments(self) -> tuple[Any, ...]:
        each = ([self.get_buffer(tensor_name(t, name)) for t in range(len(self.num_groups))] for name in TENSORS)
        return self.get_buffer("tier_map"), self.get_buffer("tier_ranks"), *each, self.num_groups, self.padding_idx

    def extra_repr(self) -> str:
        """Return sizes and state for ``print(model)``."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}, {len(self.num_groups)} tiers{padding}, frozen=True"
