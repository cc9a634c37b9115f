"""Codes and centroids of a table that are nearest to the dense rows by the curvature of the outputs.

    minimise over c, V:  sum over rows i of  s_i (r_i - e_i)^T H (r_i - e_i),    r_i = p_i [V_1[c_i1], ..., V_D[c_iD]]

e_i are the dense rows and p_i scales of rows (1 without scales). s and H are those of
`edge_embed.calibration.curvature`. Group after group, with the other groups as they are (coordinate descent):

    o_i     = sum over groups l other than j of  H_jl (r_il - e_il)
    V_j[k]  = sum over i with c_ij = k of  s_i p_i (e_ij - H_jj^-1 o_i)  /  sum of  s_i p_i^2
    c_ij    = argmin over k of  p_i V_j[k] . (o_i - H_jj e_ij) + p_i^2 / 2  V_j[k]^T H_jj V_j[k]

Centroids that several groups share, and int8 ones, stay as they are.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.calibration.curvature import Curvature
from edge_embed.calibration.stored_values import StoredTable, Values
from edge_embed.ops import dpq, tiered
from edge_embed.ops.operators import TableOperators
from edge_embed.packed.bits import pack
from edge_embed.packed.dpq import PackedDPQ

_SWEEPS = 10
_BLOCK_NUMBERS = 1 << 22
_PACKERS: Mapping[TableOperators, Callable[..., PackedDPQ]] = {dpq.FROZEN: dpq.pack_frozen, dpq.SCALED: dpq.pack_scaled}
_CODES, _VALUES = 2, 3  # places among the arguments of tiers


def has_codes(table: StoredTable) -> bool:
    """Return whether rows of the table are chosen by codes."""
    return table.form in _PACKERS or table.form is tiered.TIERED


def nearest_codes(table: StoredTable, values: Values, rows: Tensor, curvature: Curvature) -> dict[str, Tensor]:
    """Return arrays of codes and centroids by name.

    Args:
        table: a table with codes.
        values: its stored numbers of type float.
        rows: dense rows, float32 [n, d].
        curvature: curvature of the outputs by these rows.
    """
    found = dict[str, Tensor]()
    if curvature.is_zero:
        return found
    of_rows, matrix = curvature.of_rows(), curvature.matrix()
    for part in _parts(table, values):
        ids = torch.from_numpy(part.ids)
        fit = _Descent(part.packed, rows[ids], of_rows[ids], matrix)
        for _ in range(_SWEEPS):
            fit.sweep()
        found[part.codes] = torch.from_numpy(pack(fit.codes.numpy(), part.packed.bits))
        if fit.fits_values:
            found[part.values] = fit.values
    return found


@dataclass(frozen=True, eq=False)
class _Part:
    """Rows with codes of their own: those of a table, or of a tier.

    Attributes:
        codes: name of the array of codes.
        values: name of the array of centroids.
        packed: the codes and their values.
        ids: places of the rows in the table, ascending.
    """

    codes: str
    values: str
    packed: PackedDPQ
    ids: NDArray[np.intp]


def _parts(table: StoredTable, values: Values) -> Iterator[_Part]:
    """Yield the parts of a table; rows with values of their own are exact already."""
    arguments = table.given(values)
    if table.form in _PACKERS:
        packed = _PACKERS[table.form](*arguments)
        codes, centroids = table.arguments[:2]
        parts = [_Part(str(codes.target), str(centroids.target), packed, np.arange(packed.num_embeddings))]
    else:
        whole = tiered.pack(*arguments)
        tier_of, _ = whole.places(np.arange(whole.num_embeddings))
        names = zip(table.arguments[_CODES], table.arguments[_VALUES], strict=True)
        parts = [
            _Part(str(codes.target), str(centroids.target), whole.tiers[number], np.flatnonzero(tier_of == number))
            for number, (codes, centroids) in enumerate(names)
        ]
    return (part for part in parts if part.packed.num_codes < part.packed.num_embeddings)


class _Descent:
    """Codes and centroids of a part, and sweeps over its groups that improve them.

    Args:
        packed: the part, m rows.
        rows: dense rows, float32 [m, d].
        of_rows: s, float32 [m].
        matrix: H, float32 [d, d].

    Attributes:
        codes: int64 [m, D].
        values: centroids, float32 [G, K, s].
        fits_values: whether centroids change too.
    """

    def __init__(self, packed: PackedDPQ, rows: Tensor, of_rows: Tensor, matrix: Tensor) -> None:
        self._padding_idx, self._rows, self._matrix, self._of_rows = packed.padding_idx, rows, matrix, of_rows[:, None]
        self.codes = torch.from_numpy(packed.codes_of(np.arange(packed.num_embeddings)).astype(np.int64))
        self.values = torch.from_numpy(packed.values).to(torch.float32, copy=True)
        self.fits_values = packed.value_scales is None and len(self.values) == packed.num_groups
        if packed.value_scales is not None:
            self.values = self.values * torch.from_numpy(packed.value_scales)[:, None, None]
        self._scales = torch.ones(len(self.codes), 1)
        if packed.row_scales is not None and packed.row_scale_codes is not None:
            self._scales = torch.from_numpy(packed.row_scales[packed.row_scale_codes])[:, None]
        if self._padding_idx is not None:  # its row is zero, whatever its codes
            self._of_rows = self._of_rows.index_fill(0, torch.tensor(self._padding_idx), 0)
        self._errors = self._scales * dpq.select(self.values, self.codes) - self._rows  # [m, d]

    def sweep(self) -> None:
        """Improve each group once."""
        for group in range(self.codes.shape[1]):
            self._improve(group, group % len(self.values))

    def _improve(self, group: int, place: int) -> None:
        width = self.values.shape[2]
        at = slice(group * width, (group + 1) * width)
        inner = self._matrix[at, at]  # H_jj, [s, s]
        others = self._errors @ self._matrix[:, at] - self._errors[:, at] @ inner  # o, [m, s]
        if self.fits_values:
            self._move_centroids(group, self._rows[:, at] - torch.linalg.solve(inner, others, left=False))
        own = self.values[place]  # [K, s]
        slope = self._scales * (others - self._rows[:, at] @ inner)  # [m, s]
        curved = ((own @ inner) * own).sum(1) / 2  # [K]
        step = max(1, _BLOCK_NUMBERS // len(own))
        for block in torch.arange(len(slope)).split(step):
            costs = slope[block] @ own.t() + self._scales[block].square() * curved  # [block, K]
            self.codes[block, group] = costs.argmin(1)
        if self._padding_idx is not None:
            self.codes[self._padding_idx, group] = 0
        self._errors[:, at] = self._scales * own[self.codes[:, group]] - self._rows[:, at]

    def _move_centroids(self, group: int, wanted: Tensor) -> None:
        """Set each centroid to the weighted mean of what its rows want, [m, s]; unused ones stay."""
        codes, own = self.codes[:, group], self.values[group]
        weights = torch.zeros(len(own), 1).index_add_(0, codes, self._of_rows * self._scales.square())
        sums = torch.zeros_like(own).index_add_(0, codes, self._of_rows * self._scales * wanted)
        self.values[group] = torch.where(weights > 0, sums / weights.clamp(min=torch.finfo(own.dtype).tiny), own)
