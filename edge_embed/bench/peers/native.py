"""Peers in C++ without a session: kernels through the C interface, a dense row copy, and a mere read."""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from edge_embed.bench import native
from edge_embed.bench.c_table import kernel_of
from edge_embed.bench.peers.peer import Bind, Peer
from edge_embed.bench.tables import BenchTable, LeftOutError
from edge_embed.bench.uses import BenchUse, Results
from edge_embed.validation.timing import Feeds

Call = Callable[[NDArray[np.int64], NDArray[np.float32]], None]


class _NativeCalls:
    """All calls of a round in one call from Python; ids of a table with a row order are mapped before."""

    def __init__(
        self, call: Call, dim: int, feeds: Feeds, calls: int, row_order: NDArray[np.int32] | None = None
    ) -> None:
        self._call, self._row_order = call, row_order
        self._rows = np.empty((len(feeds["ids"]), dim), np.float32)
        self.set_inputs([feeds] * calls)

    def set_inputs(self, feeds: Sequence[Feeds]) -> None:
        """Set new ids, one set for every call."""
        ids = np.stack([one["ids"] for one in feeds])  # [calls, B]
        self._ids = ids if self._row_order is None else self._row_order[ids].astype(np.int64)

    def run(self) -> None:
        """Make all calls, one after the other."""
        self._call(self._ids, self._rows)

    @property
    def calls(self) -> int:
        """Return the number of calls that `run` makes."""
        return len(self._ids)

    def results(self) -> Results:
        """Return the rows of the last call."""
        return (self._rows,)


class _Reading:
    """Memory of the size of a table, read from end to end in every call."""

    def __init__(self, memory: native.Memory, feeds: Feeds, calls: int) -> None:
        self._memory, self.calls = memory, calls

    def set_inputs(self, feeds: Sequence[Feeds]) -> None:
        """Do nothing: there are no inputs."""

    def run(self) -> None:
        """Make all calls, one after the other."""
        self._memory.read(self.calls)

    def results(self) -> Results:
        """Return no results."""
        return ()


def _kernel(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    packed = table.packed
    if kernel_of(packed.method, packed.shape) is None:
        raise LeftOutError("the C interface has no kernels for these tables")
    kernel = native.Gather(packed, table.memory_bytes or 0)
    return partial(_NativeCalls, kernel, packed.embedding_dim, row_order=packed.tensors().get("row_order"))


def _copy(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    return partial(_NativeCalls, partial(native.copy_rows, table.dense), table.packed.embedding_dim)


def _read(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    return partial(_Reading, native.Memory(table.packed.nbytes))


def _nothing(table: BenchTable, use: BenchUse, threads: int) -> Bind:
    no_table = np.empty((1, table.packed.embedding_dim), np.float32)

    def call(ids: NDArray[np.int64], rows: NDArray[np.float32]) -> None:
        native.copy_rows(no_table, ids[:0], rows)

    return partial(_NativeCalls, call, table.packed.embedding_dim)


KERNEL = Peer("kernel", "C interface, called from C++ on one thread", ("kernel",), _kernel, by_empty_call=True)
EMPTY = Peer("empty call", "call of C++ from Python without copies", ("kernel",), _nothing, by_empty_call=True)
PEERS = (
    Peer(
        "dense copy",
        "memcpy of rows of the float32 table in C++, 8 rows prefetched",
        ("kernel",),
        _copy,
        by_empty_call=True,
    ),
    Peer(
        "read of the table",
        "one read of the bytes of the packed table in C++ on one thread: a lower bound, without a search",
        ("topk",),
        _read,
    ),
)
