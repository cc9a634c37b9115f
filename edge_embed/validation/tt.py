"""Locations in a packed TT table: the indices of a bit of a stored core, or the id of a row order."""

import numpy as np

from edge_embed.packed.tt import PackedTT
from edge_embed.validation.method import ValidationMethod


def _locate(packed: PackedTT, tensor: str, offset: int, bit: int) -> str:
    core = packed.tensors()[tensor]
    if tensor == "row_order":
        return f"id {offset // core.itemsize}"
    index, left, column, right = map(int, np.unravel_index(offset // core.itemsize, core.shape))
    return f"index {index}, column index {column}, ranks {left} and {right}"


def _terms(packed: PackedTT) -> int:
    """Return the largest rank, because each intermediate product sums over one rank."""
    return int(max(core.shape[3] for core in packed.cores))


def _comparisons(packed: PackedTT) -> int:
    """Return the number of elements of the largest intermediate product of a row."""
    return max(int(np.prod(core.shape[1:])) for core in packed.cores)


def _column(packed: PackedTT, index: int) -> str:
    return f"column {index}"


TT = ValidationMethod(PackedTT.method, False, _locate, _terms, _comparisons, _column)
