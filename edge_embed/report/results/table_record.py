"""What became of one embedding on the way from a model to an exported file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TableRecord:
    """One embedding of a model: lowering fills this in, and an exporter what depends on the target.

    Attributes:
        name: where it sits in the user's model.
        method: ``dpq``, ..., or ``dense``.
        num_embeddings: rows n.
        embedding_dim: columns d.
        lowered: whether it is packed in the file.
        reason: why it was left, empty if it was not.
        uses: how many times the model uses it: looks ids up, reduces bags, multiplies with every row, finds
            the rows of the largest products.
        packed_bytes: bytes of the packed tensors, None if it was left.
        compression_ratio: by the formula of the method's paper, None if it was left.
        session_bytes: that a session takes at most beside the file to be faster, in all its uses.
        needed_bytes: the least that each of them would have to be allowed, where they are allowed less and take none;
            else 0.
        layout: how it lies in the file, where the target has several ways; else empty.
        added_bytes: that this adds to the packed tensors.
        is_zero: whether all of its rows are zero.
        settings: what else it is made with: ``num_codes``, ``ranks``, ``value_type``, ...; empty if it was left.
    """

    name: str
    method: str
    num_embeddings: int
    embedding_dim: int
    lowered: bool
    reason: str
    uses: int = 1
    packed_bytes: int | None = None
    compression_ratio: float | None = None
    session_bytes: int = 0
    needed_bytes: int = 0
    layout: str = ""
    added_bytes: int = 0
    is_zero: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)
