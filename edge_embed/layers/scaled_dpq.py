"""`ScaledDPQEmbedding`: codes and values whose rows have scales, as other tools make them. It does not learn.

row(id) = row_scales[row_scale_codes[id]] [V_1[c_1], ..., V_D[c_D]]         the first d of its D s columns
"""

from collections.abc import Callable
from typing import Any, Self

import torch
from torch import Tensor

from edge_embed.layers.table import CompressedEmbedding, Memory
from edge_embed.ops import dpq
from edge_embed.ops.operators import TableOperators
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.packed_form import check_form

_SCALES = ("value_scales", "row_scale_codes", "row_scales")


class ScaledDPQEmbedding(CompressedEmbedding):
    """A frozen ``nn.Embedding`` over a packed DPQ table whose rows have scales, or whose last group is narrower.

    It keeps ``codes`` uint8 [n, row_bytes], ``value`` [G, K, s], and where the table has them ``value_scales`` float32
    [G], ``row_scale_codes`` uint8 [n] and ``row_scales`` float32 [S]. Integer rows and fastText's quantised tables
    are of this kind.

    Args:
        packed: the table, whose arrays are copied.

    Shape:
        ids of any integer dtype and any shape (*), 0-d and empty included -> (*, d).

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
        """The same as the constructor, as for the layers of other methods."""
        return cls(packed)

    @property
    def frozen(self) -> bool:
        """True: there is nothing to learn."""
        return True

    @property
    def stored_type(self) -> torch.dtype:
        """Type of the rows: that of the values, float32 where there are scales."""
        scaled = self.row_scales is not None or self.value_scales is not None
        return torch.float32 if scaled else self.value.dtype

    def to_packed(self) -> PackedDPQ:
        """The packed form of the table."""
        return dpq.pack_scaled(*self._arguments())

    def freeze(self) -> Self:
        """The layer as it is: it is frozen already."""
        return self

    def training_rows(self, own: Tensor, counts: Tensor, update: bool = True, memory: Memory | None = None) -> Tensor:
        """Never called: a frozen table has no rows in training.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError

    def _table(self) -> tuple[TableOperators, tuple[Any, ...]]:
        return dpq.SCALED, self._arguments()

    def _arguments(self) -> tuple[Any, ...]:
        scales = self.value_scales, self.row_scale_codes, self.row_scales
        return self.codes, self.value, *scales, self.num_groups, self.unused_columns, self.padding_idx

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Follow ``.to(device)``; of ``.half()`` and the like the rows alone, numbers stay as they are stored."""
        stored = {name: (tensor, tensor.dtype) for name, tensor in self._buffers.items() if tensor is not None}
        super()._apply(fn, recurse)
        for name, (tensor, dtype) in stored.items():
            moved = self._buffers[name]
            if moved is not None and moved.dtype != dtype:
                self._buffers[name] = tensor.to(moved.device)
        return self

    def extra_repr(self) -> str:
        """Sizes, as ``print(model)`` shows them."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        shown = f"{self.num_embeddings}, {self.embedding_dim}, num_codes={self.value.shape[1]}"
        return f"{shown}, num_groups={self.num_groups}{padding}, frozen=True"
