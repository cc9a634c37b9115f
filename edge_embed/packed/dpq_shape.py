"""Sizes of a DPQ table, computed from n, d, K, D and sharing before any array exists.

    bits = ceil(log2 K)    row_bytes = ceil(D * bits / 8)    s = (d + u) / D        u unused columns, 0 for most tables
    nbytes = n * row_bytes + 4 K d        (4 K s if all groups share one value table; 2 for 4 with float16)
           = n * row_bytes + (K s + 4) D  with int8 values, which have a float32 scale for each value table
           + n + 4 S                      if each row has one of S scales

The compression ratio follows the DPQ paper (Chen, Li and Sun 2020, section 3).
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

from edge_embed.errors import BadInputError
from edge_embed.packed.bits import bits_for, row_bytes
from edge_embed.packed.floats import FLOAT_BYTES, check_float_type
from edge_embed.packed.packed_form import TensorSpec
from edge_embed.packed.row_scales import check_num_row_scales
from edge_embed.packed.sizes import check_count, check_total

VALUE_BYTES = {**FLOAT_BYTES, "int8": 1}
_SCALE_BYTES = 4


@dataclass(frozen=True)
class DPQShape:
    """Numbers that determine every size of a DPQ table.

    Attributes:
        num_embeddings: Rows n, at least 1.
        embedding_dim: Columns d.
        num_codes: K, 2 to 65,536.
        num_groups: D, a divisor of d + u.
        shared: Whether all groups share one value table; false for a single group.
        value_type: Dtype of the values: ``float32``, ``float16`` or ``int8``.
        num_row_scales: S, number of scales of rows, up to 256; 0 without scales.
        unused_columns: u, fewer than s: columns at the end of the last group that are not part of rows.

    Raises:
        BadInputError: One of them is out of range, or a size does not fit 63 bits.
    """

    num_embeddings: int
    embedding_dim: int
    num_codes: int
    num_groups: int
    shared: bool = False
    value_type: str = "float32"
    num_row_scales: int = 0
    unused_columns: int = 0

    def __post_init__(self) -> None:
        for name in ("num_embeddings", "embedding_dim", "num_codes", "num_groups"):
            check_count(name, getattr(self, name))
        shared: object = self.shared
        if type(shared) is not bool or (shared and self.num_groups == 1):
            raise BadInputError(f"shared: got {shared!r}, expected true or false, and false with one group")
        bits_for(self.num_codes)
        check_count("unused_columns", self.unused_columns, least=0)
        check_num_row_scales(self.num_row_scales)
        width, left = divmod(self.embedding_dim + self.unused_columns, self.num_groups)
        if left:
            unused = f" + unused_columns ({self.unused_columns})" if self.unused_columns else ""
            divisor = f"expected a divisor of embedding_dim ({self.embedding_dim}){unused}"
            raise BadInputError(f"num_groups: got {self.num_groups}, {divisor}")
        if self.unused_columns >= width:
            raise BadInputError(f"unused_columns: got {self.unused_columns}, expected fewer than a group's {width}")
        check_float_type("value_type", self.value_type, tuple(VALUE_BYTES))
        check_total(self.num_embeddings, self.embedding_dim, self.nbytes)

    @property
    def is_plain(self) -> bool:
        """Return whether rows are the selected values without scales and unused columns."""
        return not self.num_row_scales and not self.unused_columns

    @property
    def bits(self) -> int:
        """Bits per code, ceil(log2 K)."""
        return bits_for(self.num_codes)

    @property
    def row_bytes(self) -> int:
        """Bytes of the codes of one row."""
        return row_bytes(self.num_groups, self.bits)

    @property
    def group_width(self) -> int:
        """Width s = (d + u) / D of a group."""
        return (self.embedding_dim + self.unused_columns) // self.num_groups

    @property
    def num_value_tables(self) -> int:
        """First axis of the values: D, or 1 if shared."""
        return 1 if self.shared else self.num_groups

    @property
    def codebook_bytes(self) -> int:
        """Bytes of the values and of the scales of int8 values."""
        scale_bytes = _SCALE_BYTES if self.value_type == "int8" else 0
        table_bytes = VALUE_BYTES[self.value_type] * self.num_codes * self.group_width + scale_bytes
        return self.num_value_tables * table_bytes

    @property
    def row_scale_bytes(self) -> int:
        """Bytes of the scales of rows, and of the byte of each row that selects one."""
        return self.num_embeddings + _SCALE_BYTES * self.num_row_scales if self.num_row_scales else 0

    @property
    def nbytes(self) -> int:
        """Bytes of codes, values and scales."""
        return self.num_embeddings * self.row_bytes + self.codebook_bytes + self.row_scale_bytes

    @property
    def compression_ratio(self) -> float:
        """32 n d / (n D log2 K + 32 K d), or 32 K s if shared: the paper's ratio, by log2 K instead of ``bits``.

        float16 values count 16 bits instead of the second 32, int8 values 8, and scales 32 each. Scales of rows add 8
        n.
        """
        code_bits = self.num_embeddings * self.num_groups * math.log2(self.num_codes)
        other_bytes = self.codebook_bytes + self.row_scale_bytes
        return 32 * self.num_embeddings * self.embedding_dim / (code_bits + 8 * other_bytes)

    @property
    def plain(self) -> Self:
        """Sizes of the table that plain nodes use; other nodes add an order or scales of rows."""
        dim = self.embedding_dim + self.unused_columns
        return replace(self, embedding_dim=dim, num_row_scales=0, unused_columns=0)

    def with_rows(self, num_embeddings: int) -> Self:
        """Return the sizes of a table with this number of rows and the same bytes a row."""
        return replace(self, num_embeddings=num_embeddings)

    def attributes(self) -> dict[str, Any]:
        """Return the attributes that a file stores beside the tensors; rare ones only if they are not zero."""
        rare = {"num_row_scales": self.num_row_scales, "unused_columns": self.unused_columns}
        return {
            "bits": self.bits,
            "num_codes": self.num_codes,
            "num_groups": self.num_groups,
            "share_subspaces": self.shared,
            **{name: count for name, count in rare.items() if count},
        }

    def tensor_specs(self) -> dict[str, TensorSpec]:
        """Return the specs of codes uint8 [n, row_bytes], values [D or 1, K, s] and float32 scales [D or 1] and [S]."""
        n, tables = self.num_embeddings, self.num_value_tables
        specs = {
            "codes": TensorSpec("uint8", (n, self.row_bytes)),
            "values": TensorSpec(self.value_type, (tables, self.num_codes, self.group_width)),
        }
        if self.value_type == "int8":
            specs["value_scales"] = TensorSpec("float32", (tables,))
        if self.num_row_scales:
            specs["row_scale_codes"] = TensorSpec("uint8", (n,))
            specs["row_scales"] = TensorSpec("float32", (self.num_row_scales,))
        return specs
