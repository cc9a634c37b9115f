"""Record of one embedding from the model to the exported file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class TableRecord:
    """One embedding of a model. Lowering fills this in; an exporter adds the fields that depend on the target.

    Attributes:
        name: name of the table in the user's model.
        method: ``dpq``, ..., or ``dense``.
        num_embeddings: rows n.
        embedding_dim: columns d.
        lowered: whether it is packed in the file.
        reason: why it was left, empty if it was packed.
        uses: number of its uses in the model: lookups, bags, output layers and top-k.
        packed_bytes: bytes of the packed tensors, None if it was left.
        compression_ratio: by the formula of the method's paper, None if it was left.
        session_bytes: most session memory of all its uses together.
        needed_bytes: least session memory that each use needs, if the limit is lower and the uses take none; else 0.
        layout: layout in the file, if the target has several; else empty.
        added_bytes: bytes that the layout adds to the packed tensors.
        is_zero: whether all of its rows are zero.
        settings: settings of the method: ``num_codes``, ``ranks``, ``value_type``, ...; empty if it was left.
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
