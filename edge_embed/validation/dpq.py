"""Locations in a packed DPQ table: the row and group of a bit of a stored tensor."""

import numpy as np

from edge_embed.packed.bits import row_blocks
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.validation.method import ValidationMethod


def _locate(packed: PackedDPQ, tensor: str, offset: int, bit: int) -> str:
    if tensor == "codes":
        row, byte = divmod(offset, packed.row_bytes)
        group = (8 * byte + bit) // packed.bits
        return f"row {row}, group {group}" if group < packed.num_groups else f"row {row}, spare bits"
    if tensor == "value_scales":
        return f"the scale of group {offset // 4}"
    if tensor == "row_scale_codes":
        return f"row {offset}"
    if tensor == "row_scales":
        return f"row scale {offset // 4}"
    width = packed.values.shape[2]
    stored_group, rest = divmod(offset // packed.values.itemsize, packed.num_codes * width)
    code, column = divmod(rest, width)
    return f"group {stored_group}, code {code}, column {column} ({_first_row(packed, stored_group, code)})"


def _first_row(packed: PackedDPQ, stored_group: int, code: int) -> str:
    """Return the first row that uses a codebook entry; with shared subspaces any of its groups may hold the code."""
    groups = slice(None) if packed.shape.shared else slice(stored_group, stored_group + 1)
    for block in row_blocks(packed.num_embeddings, 8 * packed.row_bytes):
        codes = packed.codes_of(np.arange(block.start, block.stop))[:, groups]  # [block, D or 1]
        found = np.flatnonzero((codes == code).any(axis=1))
        if found.size:
            return f"first used by row {block.start + int(found[0])}"
    return "no row uses it"


def _terms(packed: PackedDPQ) -> int:
    return 1


def _comparisons(packed: PackedDPQ) -> int:
    return packed.num_groups * packed.num_codes  # every group with every code


def _column(packed: PackedDPQ, index: int) -> str:
    return f"group {index // packed.values.shape[2]}, column {index}"


DPQ = ValidationMethod(PackedDPQ.method, True, _locate, _terms, _comparisons, _column)
