"""Rows of small integers with a scale for each row: rounding in training, and packing.

    row(i) = s_i q_i        q_ij = clamp(round(E_ij / s_i), -L, L)        L = 2^(b - 1) - 1
    s_i    = up(max_j |E_ij| / L), near(c_b sqrt(mean_j E_ij^2)) or the one between

The scale of a row is the one with the least |s_i q_i - E_i|^2. Scales are powers of 2^(1/8): up(x) is the smallest
that is not below x, near(x) the nearest one. A table has at most 256 of them, which cover 32 octaves, so one byte
selects one; smaller rows take the smallest. up clips nothing. c_b is the step with the least squared error for normally
distributed numbers: with few bits, it clips large ones. Gradients pass the rounding unchanged (straight-through).

Sources: "Quantizing for Minimum Distortion" (Max 1960) for c_b, which its table II has up to 36 levels; "Estimating or
Propagating Gradients Through Stochastic Neurons for Conditional Computation" (Bengio, Leonard and Courville 2013) for
the gradient.

Shapes: n rows of d columns, B ids. E [n, d] are the latent rows, which only training has.
"""

from collections.abc import Callable

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.ops.ids import check_id_range
from edge_embed.ops.operators import define, finish_rows
from edge_embed.packed import bits as bit_packing
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.row_scales import MAX_ROW_SCALES

FEWEST_BITS, MOST_BITS = 2, 8
_STEPS = {2: 1.224, 3: 0.6508, 4: 0.3534, 5: 0.1932, 6: 0.1055, 7: 0.0573, 8: 0.0309}  # c_b
_LEAST, _MOST, _OCTAVE = -126, 120, 8  # powers of two of the smallest and largest scale, and scales in an octave
_POWERS = torch.arange(_LEAST * _OCTAVE, _MOST * _OCTAVE + 1, dtype=torch.float64) / _OCTAVE
_SAME = 1e-9  # relative difference of errors below which they are equal, whatever the order of their sums
_BLOCK_NUMBERS = 1 << 22


def levels(bits: int) -> int:
    """Return the largest integer L of so many bits, whose negative is the smallest."""
    return (1 << bits - 1) - 1


def values(bits: int) -> NDArray[np.float32]:
    """Return the values of all codes, -L - 1 to L, [1, 2^b, 1]."""
    return np.arange(-levels(bits) - 1, levels(bits) + 1, dtype=np.float32).reshape(1, -1, 1)


def shape_of(num_embeddings: int, embedding_dim: int, bits: int, num_row_scales: int = MAX_ROW_SCALES) -> DPQShape:
    """Return the sizes of a packed table, by default of one whose rows need the maximum number of scales."""
    sizes = num_embeddings, embedding_dim, 1 << bits, embedding_dim, embedding_dim > 1
    return DPQShape(*sizes, num_row_scales=min(num_embeddings, num_row_scales))


def learned_rows(latent: Tensor, bits: int) -> Tensor:
    """Return rows float32 [B, d] of latent rows [B, d], up to one rounding; their gradient is that of latent rows."""
    wide = latent.float()
    return wide + (rounded(wide, bits) - wide).detach()


@torch.no_grad()
def rounded(rows: Tensor, bits: int) -> Tensor:
    """Return s q of rows, float32 [B, d]; NaN and infinity become NaN."""
    places = _places(rows, bits)
    return _integers(rows, bits, places) * _scales(rows.device)[places, None]


def _scales(device: torch.device) -> Tensor:
    """Return all scales, float32 in ascending order."""
    return _POWERS.exp2().float().to(device)


def _integers(rows: Tensor, bits: int, places: Tensor) -> Tensor:
    """Return the integers q, float32 [B, d], of rows float32 [B, d] with scales at places int64 [B]."""
    scales = _scales(rows.device)[places, None]
    finite = rows * 0 + 1  # NaN for NaN and infinity
    return (rows / scales).round().clamp(-levels(bits), levels(bits)) * finite + 0.0  # no -0.0


def _places(rows: Tensor, bits: int) -> Tensor:
    """Return the places of the scales, int64 [B], of rows float32 [B, d]."""
    largest, scales = levels(bits), _scales(rows.device)
    most = rows.abs().amax(1)  # [B]
    # Sums in float64 do not depend on how many rows are computed together. Numbers up to 1 have squares in range.
    unit = most.clamp(min=torch.finfo(rows.dtype).tiny)[:, None]
    squares = (rows / unit).square().sum(1, dtype=torch.float64)
    lengths = most * squares.div(rows.shape[1]).sqrt()  # [B]
    up = torch.searchsorted(scales, most / largest).clamp(max=len(scales) - 1)
    middles = (_POWERS[:-1] + 0.5 / _OCTAVE).exp2().to(rows.device)
    near = torch.minimum(up, torch.searchsorted(middles, _STEPS[bits] * lengths))
    best, least = up, _errors(rows, bits, up, unit)
    for places in ((near + up) // 2, near):
        errors = _errors(rows, bits, places, unit)
        is_less = errors < (1 - _SAME) * least
        best, least = torch.where(is_less, places, best), torch.where(is_less, errors, least)
    return best


def _errors(rows: Tensor, bits: int, places: Tensor, unit: Tensor) -> Tensor:
    """Return squared errors, float64 [B], of rows float32 [B, d] with scales at places int64 [B], in units [B, 1]."""
    rounded = _integers(rows, bits, places) * _scales(rows.device)[places, None]
    return ((rounded - rows) / unit).square().sum(1, dtype=torch.float64)


def trainable_rows(ids: Tensor, latent: Tensor, bits: int, padding_idx: int | None) -> Tensor:
    """Return the rounded rows of ids of any shape, float32 [*ids, d].

    Raises:
        IdOutOfRangeError: for ids below 0 or from n on.
    """
    check_id_range(ids, latent.shape[0])
    chosen = latent.index_select(0, ids.reshape(-1).long())
    return finish_rows(rounded(chosen.float(), bits), ids, padding_idx)


@torch.no_grad()
def pack(
    latent: Tensor, bits: int, padding_idx: int | None, on_block: Callable[[int], None] = lambda rows: None
) -> PackedDPQ:
    """Pack the rounded rows of a table.

    Args:
        latent: latent rows E, float [n, d].
        bits: bits b.
        padding_idx: the row of zeros, or None.
        on_block: called with the number of packed rows.

    Raises:
        BadInputError: a number is not finite.
    """
    check_finite("latent", latent)
    blocks = latent.detach().split(max(1, _BLOCK_NUMBERS // latent.shape[1]))
    places = torch.cat([_places(block.float().cpu(), bits) for block in blocks])  # [n]
    places = places.clamp(min=int(places.unique()[-MAX_ROW_SCALES:][0]))
    used, row_scale_codes = places.unique(return_inverse=True)
    codes, begin = list[NDArray[np.uint8]](), 0
    for block in blocks:
        integers = _integers(block.float().cpu(), bits, places[begin : begin + len(block)])
        codes.append(bit_packing.pack((integers + levels(bits) + 1).to(torch.uint8).numpy(), bits))
        begin += len(block)
        on_block(begin)
    packed, scale_codes = np.concatenate(codes), row_scale_codes.to(torch.uint8).numpy()
    if padding_idx is not None:
        packed[padding_idx], scale_codes[padding_idx] = 0, 0
    return PackedDPQ(
        packed, values(bits), latent.shape[1], padding_idx, None, scale_codes, _scales(used.device)[used].numpy()
    )


def check_finite(name: str, rows: Tensor) -> None:
    """Raise `BadInputError` for rows [n, d] with NaN or infinity."""
    finite = rows.detach().isfinite().all(1)
    if not finite.all():
        row = int(finite.int().argmin())
        raise BadInputError(f"{name}: got NaN or infinity in row {row}, expected finite numbers")


TRAINABLE = define(
    "integers",
    "Tensor latent, int bits, int? padding_idx",
    trainable_rows,
    size=lambda latent, bits, padding_idx: (latent.shape[0], latent.shape[1]),
    like=lambda latent, bits, padding_idx: latent.new_empty(0, dtype=torch.float32),
)
FORMS = (TRAINABLE,)
