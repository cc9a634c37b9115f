"""Least work of a use of a table, in operations and bytes, for the roofline.

Operations: each method defines those of rows and logits. Bags add d for each row. Top-k adds one comparison for each
logit.

Bytes: the stored bytes of the requested rows (of all rows for logits), inputs and results, each counted once.
"""

from dataclasses import dataclass

from edge_embed.bench.method import BenchMethod
from edge_embed.bench.uses import IDS_A_BAG, BenchUse, TopK
from edge_embed.methods import Parts
from edge_embed.packed.packed_form import PackedTable

_METHODS: Parts[BenchMethod] = Parts("bench")


@dataclass(frozen=True)
class Work:
    """Least work of one call."""

    operations: float
    bytes: float


def work(packed: PackedTable, use: BenchUse, batch: int) -> Work:
    """Return the least work of a call of ``batch`` items."""
    n, dim, method = packed.num_embeddings, packed.embedding_dim, _METHODS[packed.method]
    if isinstance(use, TopK):
        return Work(method.logits(packed, batch) + batch * n, packed.nbytes + batch * (4 * dim + 12 * use.k))
    if use.operator == "logits":
        return Work(method.logits(packed, batch), packed.nbytes + 4 * batch * (dim + n))
    operations, stored = method.row(packed)
    if use.operator == "bag":
        bags = max(1, batch // IDS_A_BAG)
        return Work(batch * (operations + dim), batch * (8 + stored) + bags * (8 + 4 * dim))
    return Work(batch * operations, batch * (8 + stored + 4 * dim))
