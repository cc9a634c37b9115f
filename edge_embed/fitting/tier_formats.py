"""Formats of a tier, all stored as DPQ: rows of floats or integers, codes of columns and groups, shared rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edge_embed.fitting import rows as integer_rows
from edge_embed.fitting.setting import Setting
from edge_embed.packed.bits import MAX_CODES, bits_for, pack
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import DPQShape

_ROW_BITS = (8, 6, 5, 4, 3, 2)
_COLUMN_BITS = (5, 4, 3, 2)
_GROUP_CODES, _GROUP_WIDTHS = (256, 64, 16), (2, 4, 8)
_SHARED_ROWS = 16


@dataclass(frozen=True, eq=False)
class Format:
    """Format of the rows of a tier.

    Attributes:
        name: in words, as reports show it.
        shape_of: sizes of a tier from its number of rows.
        setting: the fit; None for floats, which are only rounded.
        most_rows: largest number of rows.
    """

    name: str
    shape_of: Callable[[int], DPQShape]
    setting: Setting | None
    most_rows: int = 2**31

    @property
    def fixed_bytes(self) -> int:
        """Bytes of a tier that do not depend on its rows."""
        shape = self.shape_of(2)
        return 0 if self.setting is None else shape.nbytes - 2 * self.row_bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of each row; of floats in the largest tier."""
        if self.setting is None:
            return self.shape_of(MAX_CODES).nbytes // MAX_CODES
        return self.shape_of(3).nbytes - self.shape_of(2).nbytes

    def fit(self, rows: Tensor, weights: Tensor, value_type: str, **given: Any) -> PackedDPQ:
        """Return a tier of rows, float64 [m, d], weighted by float64 [m]."""
        if self.setting is None:
            return _of_floats(rows, value_type)
        packed = self.setting.fit(rows, counts=weights if weights.any() else None, **given).layer.to_packed()
        assert isinstance(packed, PackedDPQ)
        return replace(packed, values=packed.values.astype(value_type))


def formats(dim: int, value_type: str) -> Iterator[Format]:
    """Yield all formats for rows of d columns, and values of a dtype."""
    yield Format(f"{value_type} rows", lambda m: DPQShape(m, dim, max(2, m), 1, value_type=value_type), None, MAX_CODES)
    for bits in _ROW_BITS:
        scaled = _row_shape(dim, bits, value_type)
        yield Format(f"{bits}-bit rows", scaled, Setting("rows", {"bits": bits}))
    for bits in _COLUMN_BITS:
        yield _of_codes(f"{bits}-bit columns", dim, 1 << bits, dim, value_type)
    for num_codes in _GROUP_CODES:
        for width in _GROUP_WIDTHS:
            if dim % width == 0 and width < dim:
                name = f"codes of {width} columns, K={num_codes}"
                yield _of_codes(name, dim, num_codes, dim // width, value_type)
    yield _of_codes(f"{_SHARED_ROWS} shared rows", dim, _SHARED_ROWS, 1, value_type)


def _row_shape(dim: int, bits: int, value_type: str) -> Callable[[int], DPQShape]:
    shape = integer_rows.shape_of(256, dim, bits)
    return lambda m: replace(shape, num_embeddings=m, value_type=value_type)


def _of_codes(name: str, dim: int, num_codes: int, num_groups: int, value_type: str) -> Format:
    shape = DPQShape(2, dim, num_codes, num_groups, value_type=value_type)
    setting = Setting("dpq", {"num_codes": num_codes, "num_groups": num_groups}, {"value_type": value_type})
    return Format(name, shape.with_rows, setting)


def _of_floats(rows: Tensor, value_type: str) -> PackedDPQ:
    """Return rows [m, d] as one group whose codes number them."""
    stored = rows.to(getattr(torch, value_type)).numpy()
    values = stored if len(stored) > 1 else np.concatenate([stored, np.zeros_like(stored)])
    codes = pack(np.arange(len(stored))[:, np.newaxis], bits_for(len(values)))
    return PackedDPQ(codes, values[np.newaxis], 1)
