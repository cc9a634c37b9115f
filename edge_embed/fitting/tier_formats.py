"""Formats of a tier, all stored as DPQ: rows of floats or integers, codes of columns and groups, shared rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from edge_embed.fitting.dense_table import DenseTable, Weight
from edge_embed.fitting.setting import Setting
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.ops import integers
from edge_embed.packed.bits import MAX_CODES
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.tier_words import tier_words

_ROW_BITS = (8, 7, 6, 5, 4, 3, 2)
_COLUMN_BITS, _NARROW_COLUMN_BITS = (5, 4, 3, 2), (8, 7, 6)
_NARROW = 64  # columns, up to which a byte for the scale of a row costs more than codebooks do
_GROUP_CODES, _GROUP_WIDTHS = (256, 64, 16), (2, 4, 8)
_SHARED_ROWS = (256, 64, 16, 4)
_ROWS_A_CODE = 4  # in a sample; fewer would make codes look better than they are


@dataclass(frozen=True, eq=False)
class Format:
    """Format of the rows of a tier.

    Attributes:
        shape_of: sizes of a tier from its number of rows.
        setting: the fit; None for floats, which are only rounded.
        least_rows: smallest number of rows of a fit to a sample.
        most_rows: largest number of rows.
    """

    shape_of: Callable[[int], DPQShape]
    setting: Setting | None
    least_rows: int = 1
    most_rows: int = 2**31

    @property
    def has_codebook(self) -> bool:
        """Return whether codes are fitted to the rows; integers and floats are only rounded."""
        return self.setting is not None and self.setting.method == "dpq"

    @cached_property
    def name(self) -> str:
        """Format in words, as reports show it."""
        return tier_words(self.shape_of(3))

    @cached_property
    def fixed_bytes(self) -> int:
        """Bytes of a tier that do not depend on its rows; the largest number of scales for integers.

        One row of floats is stored as two.
        """
        if self.setting is None:
            return self.shape_of(1).nbytes - self.row_bytes
        shape = self.shape_of(1 << 20)
        return shape.nbytes - (1 << 20) * self.row_bytes

    @cached_property
    def row_bytes(self) -> int:
        """Bytes of each row; of floats in the largest tier."""
        if self.setting is None:
            return self.shape_of(MAX_CODES).nbytes // MAX_CODES
        return self.shape_of(1 << 20).nbytes - self.shape_of((1 << 20) - 1).nbytes

    def fit(
        self,
        rows: Weight,
        weights: Tensor,
        value_type: str,
        padding_idx: int | None = None,
        *,
        triangle: Tensor,
        **given: Any,
    ) -> PackedDPQ:
        """Return a tier of rows [m, d], weighted by float64 [m].

        ``triangle`` is that of the whole table (`error_feedback.triangle_of`); ``given`` is passed to `Setting.fit`.
        """
        if self.setting is None:
            return PackedDPQ.from_rows(DenseTable(rows, padding_idx).all_rows(getattr(torch, value_type)).numpy())
        packed = self._fitted(self.setting, rows, weights, padding_idx, triangle, **given).to_packed()
        assert isinstance(packed, PackedDPQ)
        return replace(packed, values=packed.values.astype(value_type), padding_idx=None)

    def layer(
        self, rows: Weight, weights: Tensor, padding_idx: int | None = None, *, triangle: Tensor, **given: Any
    ) -> nn.Embedding | CompressedEmbedding:
        """Return a trainable tier; the arguments are those of `fit`."""
        if self.setting is None:
            every = DenseTable(rows, padding_idx).all_rows(torch.float32)
            floats: nn.Embedding = nn.Embedding.from_pretrained(every, freeze=False)
            return floats
        layer = self._fitted(self.setting, rows, weights, padding_idx, triangle, trainable=True, **given)
        layer.padding_idx = None  # the table has the padding row
        return layer

    def _fitted(
        self,
        setting: Setting,
        rows: Weight,
        weights: Tensor,
        padding_idx: int | None,
        triangle: Tensor,
        **given: Any,
    ) -> CompressedEmbedding:
        setting = replace(setting, options={**setting.options, "triangle": triangle})
        return setting.fit(rows, padding_idx, weights if weights.any() else None, **given).layer


def formats(dim: int, value_type: str) -> Iterator[Format]:
    """Yield all formats for rows of d columns, and values of a dtype."""
    yield Format(lambda m: DPQShape(m, dim, max(2, m), 1, value_type=value_type), None, most_rows=MAX_CODES)
    for bits in _ROW_BITS:
        yield Format(_row_shape(dim, bits, value_type), Setting("rows", {"bits": bits}))
    for bits in _COLUMN_BITS:
        yield _of_codes(dim, 1 << bits, dim, value_type)
    for bits in _NARROW_COLUMN_BITS if dim <= _NARROW else ():
        yield _of_codes(dim, 1 << bits, dim, value_type)
        yield _of_codes(dim, 1 << bits, dim, value_type, shared=dim > 1)
    for num_codes in _GROUP_CODES:
        for width in _GROUP_WIDTHS:
            if dim % width == 0 and width < dim:
                yield _of_codes(dim, num_codes, dim // width, value_type)
    for shared in _SHARED_ROWS:
        yield _of_codes(dim, shared, 1, value_type)


def _row_shape(dim: int, bits: int, value_type: str) -> Callable[[int], DPQShape]:
    return lambda m: replace(integers.shape_of(m, dim, bits), value_type=value_type)


def _of_codes(dim: int, num_codes: int, num_groups: int, value_type: str, shared: bool = False) -> Format:
    shape = DPQShape(2, dim, num_codes, num_groups, shared, value_type=value_type)
    options = {"num_codes": num_codes, "num_groups": num_groups, "share_subspaces": shared}
    setting = Setting("dpq", options, {"value_type": value_type})
    return Format(shape.with_rows, setting, least_rows=_ROWS_A_CODE * num_codes)
