"""Sizes of an ANT table, computed from n, d, the anchors A and the nonzeros before any array exists.

    nbytes = 4 (n + 1)  +  nnz (id_bytes + weight_bytes)  +  4  +  value_bytes A d

The ANT paper (Liang et al. 2021, section 2.2 and Table 1) counts the numbers that define the table, A d + nnz(T),
without the indices of the sparse matrix. The compression ratio follows it.
"""

import math
from dataclasses import dataclass, replace
from typing import Any, Self

from edge_embed.packed.floats import FLOAT_BYTES, check_float_type
from edge_embed.packed.packed_form import TensorSpec
from edge_embed.packed.sizes import check_count, check_total

MAX_NONZEROS = 2**31 - 1  # row offsets are int32
MAX_ANCHORS = 2**32
WEIGHT_BYTES = {"float32": 4, "float16": 2, "int8": 1}


def anchor_id_type(num_anchors: int) -> str:
    """Return the name of the smallest unsigned dtype that holds A - 1."""
    return "uint8" if num_anchors <= 1 << 8 else "uint16" if num_anchors <= 1 << 16 else "uint32"


@dataclass(frozen=True)
class ANTShape:
    """Numbers and dtypes that determine every size of an ANT table.

    Attributes:
        num_embeddings: Rows n, at least 1.
        embedding_dim: Columns d.
        num_anchors: A, at most 2**32.
        num_nonzeros: Number of stored entries of the transform, 0 to 2**31 - 1.
        weight_type: Dtype of the entries: ``float32``, ``float16`` or ``int8``.
        value_type: Dtype of the anchors and of the rows: ``float32`` or ``float16``.

    Raises:
        BadInputError: One of them is out of range, or a size does not fit 63 bits.
    """

    num_embeddings: int
    embedding_dim: int
    num_anchors: int
    num_nonzeros: int
    weight_type: str = "float32"
    value_type: str = "float32"

    def __post_init__(self) -> None:
        check_count("num_embeddings", self.num_embeddings)
        check_count("embedding_dim", self.embedding_dim)
        check_count("num_anchors", self.num_anchors, most=MAX_ANCHORS)
        entries = self.num_embeddings * self.num_anchors
        check_count("num_nonzeros", self.num_nonzeros, least=0, most=min(MAX_NONZEROS, entries))
        check_float_type("weight_type", self.weight_type, tuple(WEIGHT_BYTES))
        check_float_type("value_type", self.value_type)
        check_total(self.num_embeddings, self.embedding_dim, self.nbytes)

    @property
    def anchor_id_type(self) -> str:
        """Name of the smallest unsigned dtype that holds A - 1."""
        return anchor_id_type(self.num_anchors)

    @property
    def nbytes(self) -> int:
        """Bytes of all five tensors."""
        id_bytes = {"uint8": 1, "uint16": 2, "uint32": 4}[self.anchor_id_type]
        entry_bytes = self.num_nonzeros * (id_bytes + WEIGHT_BYTES[self.weight_type])
        anchor_bytes = FLOAT_BYTES[self.value_type] * self.num_anchors * self.embedding_dim
        return 4 * (self.num_embeddings + 1) + entry_bytes + 4 + anchor_bytes

    @property
    def compression_ratio(self) -> float:
        """32 n d / (32 nnz + 32 A d): the paper's count, without indices; narrower dtypes count their own bits."""
        entry_bits = 8 * WEIGHT_BYTES[self.weight_type] * self.num_nonzeros
        anchor_bits = 8 * FLOAT_BYTES[self.value_type] * self.num_anchors * self.embedding_dim
        return 32 * self.num_embeddings * self.embedding_dim / (entry_bits + anchor_bits)

    @property
    def plain(self) -> Self:
        """Sizes of the table that plain nodes use; other nodes add an order or scales of rows."""
        return self

    def with_rows(self, num_embeddings: int) -> Self:
        """Return the sizes of a table with this number of rows and the same bytes a row."""
        nonzeros = math.ceil(num_embeddings / self.num_embeddings * self.num_nonzeros)
        return replace(self, num_embeddings=num_embeddings, num_nonzeros=nonzeros)

    def attributes(self) -> dict[str, Any]:
        """Return the attributes that a file stores beside the tensors."""
        return {
            "num_anchors": self.num_anchors,
            "num_nonzeros": self.num_nonzeros,
            "weight_type": self.weight_type,
        }

    def tensor_specs(self) -> dict[str, TensorSpec]:
        """Return the specs of row offsets, anchor ids, weights, their scale and anchors."""
        return {
            "row_offsets": TensorSpec("int32", (self.num_embeddings + 1,)),
            "anchor_ids": TensorSpec(self.anchor_id_type, (self.num_nonzeros,)),
            "weights": TensorSpec(self.weight_type, (self.num_nonzeros,)),
            "weight_scale": TensorSpec("float32", (1,)),
            "anchors": TensorSpec(self.value_type, (self.num_anchors, self.embedding_dim)),
        }
