"""`ScaledDPQEmbedding`: codes and values of tables whose rows have scales, as other tools write them; not trainable.

row(id) = row_scales[row_scale_codes[id]] [V_1[c_1], ..., V_D[c_D]]         the first d of its D s columns
"""

from typing import Any, Self

import torch
from torch import Tensor

from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.stored import StoredEmbedding
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.ops import dpq
from edge_embed.ops.operators import TableOperators
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.packed_form import check_form

_SCALES = ("value_scales", "row_scale_codes", "row_scales")


class ScaledDPQEmbedding(StoredEmbedding):
    """Frozen ``nn.Embedding`` over a packed DPQ table whose rows have scales, or whose last group is narrower.

    It holds ``codes`` uint8 [n, row_bytes] and ``value`` [G, K, s]. If the table has them, it also holds
    ``value_scales`` float32 [G], ``row_scale_codes`` uint8 [n] and ``row_scales`` float32 [S]. Integer rows and
    fastText's quantised tables are of this kind.

    Args:
        packed: the table; its arrays are copied.

    Shape:
        ids of any integer dtype and any shape ``(*)``, 0-d and empty included -> ``(*, d)``.

    Raises:
        BadInputError: for a table of another method, or ids that are not integers.
        IdOutOfRangeError: for ids below 0 or at least n.
    """

    codes: Tensor
    value: Tensor
    value_scales: Tensor | None
    row_scale_codes: Tensor | None
    row_scales: Tensor | None

    def __init__(self, packed: PackedDPQ) -> None:
        check_form(packed, PackedDPQ)
        super().__init__(packed.num_embeddings, packed.embedding_dim, packed.padding_idx)
        self.num_groups, self.unused_columns = packed.num_groups, packed.unused_columns
        self.register_buffer("codes", torch.tensor(packed.codes))
        self.register_buffer("value", torch.tensor(packed.values))
        for name in _SCALES:
            array = getattr(packed, name)
            self.register_buffer(name, None if array is None else torch.tensor(array))

    @classmethod
    def from_packed(cls, packed: PackedDPQ) -> Self:
        """Construct the layer from a packed table, as the layers of other methods do."""
        return cls(packed)

    @property
    def stored_type(self) -> torch.dtype:
        """Dtype of the rows: that of the values, or float32 if there are scales."""
        scaled = self.row_scales is not None or self.value_scales is not None
        return torch.float32 if scaled else self.value.dtype

    def to_packed(self) -> PackedDPQ:
        """Return the packed form of the table."""
        return dpq.pack_scaled(*self._arguments())

    def _table(self) -> tuple[TableOperators, tuple[Any, ...]]:
        return dpq.SCALED, self._arguments()

    def _arguments(self) -> tuple[Any, ...]:
        scales = self.value_scales, self.row_scale_codes, self.row_scales
        return self.codes, self.value, *scales, self.num_groups, self.unused_columns, self.padding_idx

    def extra_repr(self) -> str:
        """Return sizes and state for ``print(model)``."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        shown = f"{self.num_embeddings}, {self.embedding_dim}, num_codes={self.value.shape[1]}"
        return f"{shown}, num_groups={self.num_groups}{padding}, frozen=True"


def frozen_layer(packed: PackedDPQ) -> CompressedEmbedding:
    """Return a frozen layer with a copy of a packed table, whatever its rows have."""
    return (DPQEmbedding if packed.shape.is_plain else ScaledDPQEmbedding).from_packed(packed)
