"""Locations in a packed ANT table: the row and anchor of a bit of a stored tensor."""

import numpy as np

from edge_embed.packed.ant import PackedANT
from edge_embed.validation.method import ValidationMethod


def _locate(packed: PackedANT, tensor: str, offset: int, bit: int) -> str:
    item = offset // packed.tensors()[tensor].itemsize
    if tensor == "row_offsets":
        return f"row {min(item, packed.num_embeddings - 1)}, its {'begin' if item < packed.num_embeddings else 'end'}"
    if tensor == "anchors":
        anchor, column = divmod(item, packed.embedding_dim)
        return f"anchor {anchor}, column {column}"
    if tensor == "weight_scale":
        return "the scale of all weights"
    row = int(np.searchsorted(packed.row_offsets, item, side="right")) - 1
    return f"row {row}, anchor {int(packed.anchor_ids[item])}"


def _terms(packed: PackedANT) -> int:
    return 1  # every path sums long rows in pieces or in float64


def _comparisons(packed: PackedANT) -> int:
    return packed.shape.num_anchors


def _column(packed: PackedANT, index: int) -> str:
    return f"column {index}"


ANT = ValidationMethod(PackedANT.method, False, _locate, _terms, _comparisons, _column)
