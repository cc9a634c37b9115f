"""Anchor & Transform (ANT): rows of trainable and frozen tables, and packing.

    E = max(T, 0) A                      trainable; T >= 0 while `edge_embed.layers.proximal` trains it
    E[i] = scale * sum_t w_t A[a_t]      frozen; t runs over the nonzeros of row i of T, stored in CSR

Source: "Anchor & Transform: Learning Sparse Embeddings for Large Vocabularies" (ICLR 2021), eq. (1). Rows of T are
selected first and then multiplied with A (appendix H).

Shapes: n rows, d embedding dim, A anchors, B ids; nnz nonzeros of T, m nonzeros of the requested rows.
"""

import logging
from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.ops import pairwise
from edge_embed.ops.ids import check_id_range
from edge_embed.ops.operators import define, finish_rows
from edge_embed.ops.storage import stored_array
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.ant_transform import csr_from_dense

_LOG = logging.getLogger(__name__)
WeightType = Literal["float32", "float16", "int8"]

# Nonzeros added one after the other: a longer running sum would lose precision.
_PIECE = 32
_BLOCK_NUMBERS = 1 << 20

# torch cannot gather uint16 and uint32. It can gather the signed type of the same width; the mask removes the sign.
_SIGNED = {torch.uint16: (torch.int16, 0xFFFF), torch.uint32: (torch.int32, 0xFFFFFFFF)}


def products(weights: Tensor, anchors: Tensor, multiply: Callable[[Tensor, Tensor], Tensor] = torch.matmul) -> Tensor:
    """Return weights times anchors (eq. 1): [B, A], [A, d] -> [B, d]; half precision is summed in float32."""
    wide = torch.promote_types(anchors.dtype, torch.float32)
    return multiply(weights.to(wide), anchors.to(wide)).to(anchors.dtype)


def trainable_rows(ids: Tensor, transform: Tensor, anchors: Tensor, padding_idx: int | None) -> Tensor:
    """Return rows of a trainable table: transform [n, A], anchors [A, d] -> [*ids, d]; differentiable."""
    check_id_range(ids, transform.shape[0])
    chosen = functional.embedding(ids.reshape(-1).long(), transform)  # [B, A]
    return finish_rows(products(chosen.clamp(min=0), anchors, pairwise.product), ids, padding_idx)


def frozen_rows(
    ids: Tensor,
    row_offsets: Tensor,
    anchor_ids: Tensor,
    weights: Tensor,
    weight_scale: Tensor,
    anchors: Tensor,
    padding_idx: int | None,
) -> Tensor:
    """Return rows of a frozen table [*ids, d], in memory for the rows and their nonzeros only.

    Args:
        ids: integers of any shape.
        row_offsets: int32 [n + 1]; nonzeros of row i are row_offsets[i] ... row_offsets[i + 1] - 1.
        anchor_ids: uint8, uint16 or uint32 [nnz].
        weights: float or int8 [nnz].
        weight_scale: float32 [1].
        anchors: [A, d], in the dtype of the rows.
        padding_idx: the row of zeros, or None.

    Raises:
        BadInputError: if a row's range lies outside the table, or an anchor id is A or more; the message names the row.
    """
    if torch.compiler.is_dynamo_compiling() or anchors.is_meta:  # the number of nonzeros is unknown there
        opaque: Tensor = FROZEN.rows(ids, row_offsets, anchor_ids, weights, weight_scale, anchors, padding_idx)
        return opaque
    check_id_range(ids, row_offsets.shape[0] - 1)
    flat = ids.reshape(-1).long()  # [B]
    begins = row_offsets.index_select(0, flat).long()  # [B]
    counts = row_offsets.index_select(0, flat + 1).long() - begins  # [B]
    _check_ranges(flat, begins, counts, weights.shape[0])
    bags = functional.pad(counts.cumsum(0), (1, 0))  # [B + 1], start of each row among the m
    positions = torch.arange(int(bags[-1]), device=flat.device)
    positions += (begins - bags[:-1]).repeat_interleave(counts)  # [m]
    chosen = _gathered(anchor_ids, positions)  # [m]
    _check_anchor_ids(chosen, anchors.shape[0], flat, counts)
    wide = torch.promote_types(anchors.dtype, torch.float32)
    rows = _sums(chosen, weights.index_select(0, positions).to(wide), anchors.to(wide), counts)  # [B, d]
    return finish_rows((rows * weight_scale.to(wide)).to(anchors.dtype), ids, padding_idx)


def _sums(anchor_ids: Tensor, weights: Tensor | None, anchors: Tensor, counts: Tensor) -> Tensor:
    """Return weighted sums of anchors: [m] of both, counts [B] -> [B, d]; `edge_embed.ops.pairwise` explains pieces."""
    pieces = (counts + _PIECE - 1).div(_PIECE, rounding_mode="floor").clamp(min=1)  # [B]
    order = torch.arange(int(pieces.sum()), device=counts.device)  # [P]
    within = order - (pieces.cumsum(0) - pieces).repeat_interleave(pieces)  # [P], 0, 1, ... in each row
    begins = (counts.cumsum(0) - counts).repeat_interleave(pieces) + _PIECE * within  # [P]
    sums = functional.embedding_bag(
        anchor_ids,
        anchors,
        functional.pad(begins, (0, 1), value=len(anchor_ids)),
        mode="sum",
        per_sample_weights=weights,
        include_last_offset=True,
    )  # [P, d]
    return sums if len(sums) == len(counts) else _sums(order, None, sums, pieces)


def _gathered(anchor_ids: Tensor, positions: Tensor) -> Tensor:
    """Return the anchor ids of some nonzeros: int64 [m]."""
    if anchor_ids.dtype not in _SIGNED:
        return anchor_ids.index_select(0, positions).long()
    signed, mask = _SIGNED[anchor_ids.dtype]
    return anchor_ids.view(signed).index_select(0, positions).long() & mask


def _check_ranges(ids: Tensor, begins: Tensor, counts: Tensor, total: int) -> None:
    wrong = (begins < 0) | (counts < 0) | (begins + counts > total)
    if wrong.any():
        at = int(wrong.nonzero()[0])
        first, last = int(begins[at]), int(begins[at] + counts[at])
        expected = f"expected an increasing range within 0 to {total}, the number of weights"
        raise BadInputError(f"row_offsets: row {int(ids[at])}: got {first} to {last}, {expected}")


def _check_anchor_ids(anchor_ids: Tensor, num_anchors: int, ids: Tensor, counts: Tensor) -> None:
    wrong = anchor_ids >= num_anchors
    if wrong.any():
        at = int(wrong.nonzero()[0])
        row = int(ids.repeat_interleave(counts)[at])
        got = f"got {int(anchor_ids[at])}, expected 0 to {num_anchors - 1}"
        raise BadInputError(f"anchor_ids: row {row}: {got}")


def pack(
    transform: Tensor,
    anchors: Tensor,
    padding_idx: int | None,
    weight_type: WeightType | None = None,
    on_block: Callable[[int], None] = lambda rows: None,
) -> PackedANT:
    """Pack a trainable table: the nonzeros of max(T, 0) in CSR.

    Args:
        transform: [n, A].
        anchors: float32 or float16 [A, d].
        padding_idx: the row of zeros, or None.
        weight_type: dtype of the stored nonzeros, by default that of ``transform``; weights that round to zero are
            dropped.
        on_block: called with the number of finished rows after each block.

    Raises:
        BadInputError: if a weight is NaN, infinite or too large for its dtype, or its dtype cannot be stored.
    """
    packed = sparse_form(transform, anchors, padding_idx, weight_type, on_block)
    if not len(packed.weights):
        _LOG.warning("no weight of the transform is above 0, so every row is zero: train with a lower penalty")
    return packed


def sparse_form(
    transform: Tensor,
    anchors: Tensor,
    padding_idx: int | None,
    weight_type: WeightType | None = None,
    on_block: Callable[[int], None] = lambda rows: None,
) -> PackedANT:
    """Pack as `pack` does, without a warning for a table of zeros."""
    stored_anchors, stored = stored_array(anchors), stored_array(transform)
    if _any_negative(stored, on_block):
        stored = np.where((stored < 0) & np.isfinite(stored), stored.dtype.type(0), stored)
    packed = PackedANT.from_dense(stored, stored_anchors, padding_idx, weight_type or str(stored.dtype), on_block)
    if weight_type == "int8":
        _check_kept(int(np.count_nonzero(stored)), len(packed.weights))
    return packed


def _any_negative(transform: "np.ndarray[Any, np.dtype[Any]]", on_block: Callable[[int], None]) -> bool:
    """Return whether an entry is below 0; reads blocks of rows, since the array may be a memory-mapped file."""
    step = max(1, _BLOCK_NUMBERS // transform.shape[1])
    for begin in range(0, len(transform), step):
        if (transform[begin : begin + step] < 0).any():
            return True
        on_block(0)
    return False


def _check_kept(before: int, after: int) -> None:
    """Raise if rounding drops most of a table: one large weight sets the step of all weights."""
    if 2 * after < before:
        lost = f"{before - after:,} of {before:,} weights would round to zero"
        raise BadInputError(f"{lost}, since the largest weight sets the step of all: use weight_type float16")


def with_weight_type(packed: PackedANT, weight_type: WeightType) -> PackedANT:
    """Convert the nonzeros to another dtype; weights that round to zero are dropped.

    Raises:
        BadInputError: if the dtype is unknown, or a weight is too large for it.
    """
    weights = packed.weights * packed.weight_scale  # [nnz], float32
    if not len(weights):
        weights = np.zeros(1, np.float32)  # only the dtype changes
    kept, _, stored, scale = csr_from_dense(weights[:, np.newaxis], None, weight_type)
    _check_kept(len(packed.weights), len(stored))
    chosen = packed.anchor_ids[np.diff(kept)[: len(packed.anchor_ids)] > 0]
    return PackedANT(kept[packed.row_offsets], chosen, stored, scale, packed.anchors, packed.padding_idx)


TRAINABLE = define(
    "ant_trainable",
    "Tensor transform, Tensor anchors, int? padding_idx",
    trainable_rows,
    size=lambda transform, anchors, padding_idx: (transform.shape[0], anchors.shape[1]),
    like=lambda transform, anchors, padding_idx: anchors,
)
FROZEN = define(
    "ant_frozen",
    "Tensor row_offsets, Tensor anchor_ids, Tensor weights, Tensor weight_scale, Tensor anchors, int? padding_idx",
    frozen_rows,
    size=lambda row_offsets, anchor_ids, weights, weight_scale, anchors, padding_idx: (
        row_offsets.shape[0] - 1,
        anchors.shape[1],
    ),
    like=lambda row_offsets, anchor_ids, weights, weight_scale, anchors, padding_idx: anchors,
)
