"""Peer faiss: a DPQ table as the codes of a product quantiser."""

import numpy as np
from numpy.typing import NDArray

from edge_embed.bench.peers.peer import Answering, Bind, FunctionCalls, Peer
from edge_embed.bench.tables import BenchTable, LeftOutError
from edge_embed.bench.uses import BenchUse
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.validation.timing import Feeds


def _decode(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    """Decode rows with faiss, whose codes have our layout: a bit string per row, lowest bit first.

    Each row begins on a byte boundary.
    """
    import faiss  # noqa: PLC0415

    packed = table.packed
    assert isinstance(packed, PackedDPQ)
    if not packed.shape.is_plain:
        raise LeftOutError("faiss supports neither row scales nor a narrower group")
    faiss.omp_set_num_threads(threads)
    groups, dim, bits = packed.num_groups, packed.embedding_dim, packed.bits
    centroids = np.zeros((groups, 1 << bits, dim // groups), np.float32)  # entries beyond K are never used
    scales = 1 if packed.value_scales is None else packed.value_scales[:, np.newaxis, np.newaxis]
    centroids[:, : packed.num_codes] = packed.values * scales
    quantiser = faiss.ProductQuantizer(dim, groups, bits)
    faiss.copy_array_to_vector(centroids.reshape(-1), quantiser.centroids)

    def bind(feeds: Feeds, calls: int) -> Answering:
        count = len(feeds["ids"])
        codes, rows = np.empty((count, packed.row_bytes), np.uint8), np.empty((count, dim), np.float32)
        codes_at, rows_at = faiss.swig_ptr(codes), faiss.swig_ptr(rows)

        def call(ids: NDArray[np.int64]) -> NDArray[np.float32]:
            np.take(packed.codes, ids, 0, codes, "clip")  # without "clip" numpy would buffer the result
            quantiser.decode_c(codes_at, rows_at, count)  # type: ignore[attr-defined]  # as decode() itself calls it
            return rows

        return FunctionCalls(lambda given: (given["ids"],), call, feeds, calls)

    return bind


PEERS = (
    Peer(
        "faiss PQ decode",
        "ProductQuantizer.decode into a given array; the call includes the gather of codes by numpy.take",
        ("rows",),
        _decode,
        methods=("dpq",),
        module="faiss",
        package="faiss-cpu",
    ),
)
