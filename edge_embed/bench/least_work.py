"""What a use of a table has to do at least: operations and bytes, for the roofline.

Operations of rows and logits: as each method says. Bags add d for each row. The largest logits: one comparison more for
each of them.

Bytes: what is stored of the rows that are asked for (of all of them for logits), inputs and results, each once.
"""

from dataclasses import dataclass

from edge_embed.bench.method import BenchMethod
from edge_embed.bench.uses import IDS_A_BAG, BenchUse, TopK
from edge_embed.methods import Parts
from edge_embed.packed.packed_form import PackedTable

_METHODS: Parts[BenchMethod] = Parts("bench")


@dataclass(frozen=True)
class Work:
    """Of one call."""

    operations: float
    bytes: float


def work(packed: PackedTable, use: BenchUse, batch: int) -> Work:
    """The least that a call of ``batch`` items takes."""
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
