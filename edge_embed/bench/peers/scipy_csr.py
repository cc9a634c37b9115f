"""Peer scipy: an ANT table as a sparse matrix times the anchors."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.bench.peers.peer import Bind, FunctionCalls, Peer
from edge_embed.bench.tables import BenchTable
from edge_embed.bench.uses import BenchUse
from edge_embed.packed.ant import PackedANT


def _product(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    from scipy import sparse  # noqa: PLC0415

    packed = table.packed
    assert isinstance(packed, PackedANT)
    weights = packed.weights.astype(np.float32) * packed.weight_scale
    entries = (weights, packed.anchor_ids.astype(np.int32), packed.row_offsets)
    transform = sparse.csr_array(entries, shape=(packed.num_embeddings, len(packed.anchors)))  # [n, A]
    anchors = packed.anchors.astype(np.float32)  # [A, d]

    def call(ids: NDArray[np.int64]) -> Any:
        return transform[ids] @ anchors

    return lambda feeds, calls: FunctionCalls(lambda given: (given["ids"],), call, feeds, calls)


PEERS = (
    Peer(
        "scipy CSR",
        "rows of a csr_array times the anchors; the call allocates the results",
        ("rows",),
        _product,
        methods=("ant",),
        module="scipy",
        package="scipy",
    ),
)
