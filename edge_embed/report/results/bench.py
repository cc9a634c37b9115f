"""Result of `edge-embed bench`, for people and for programs.

Figures are medians over rounds. A ratio is the time of the peer / our time within a round: above 1 ours is faster.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edge_embed.report.results.interval import Interval
from edge_embed.report.results.shown import Shown

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Figure:
    """Figure of one contender in one measurement.

    Attributes:
        name: name of the contender.
        what: the call that is timed, and the preparation before the clock runs.
        cpu_microseconds: CPU time per call on all threads; None if not measured.
        wall_microseconds: wall time per call.
        nanoseconds_per_item: CPU time / batch.
        empty_call_microseconds: CPU time of an empty call through the same interface; None if that is not measured.
        empty_call_share: empty_call_microseconds / cpu_microseconds.
        cpu_ratio: CPU time of this contender / ours; None for ours.
        wall_ratio: wall time of this contender / ours; None for ours.
        error: largest difference from the packed form in float64 / largest number of the packed form's result.
        reason: why it was not measured.
    """

    name: str
    what: str
    cpu_microseconds: float | None = None
    wall_microseconds: float | None = None
    nanoseconds_per_item: float | None = None
    empty_call_microseconds: float | None = None
    empty_call_share: float | None = None
    cpu_ratio: Interval | None = None
    wall_ratio: Interval | None = None
    error: float | None = None
    reason: str = ""

    def ratio(self, threads: int) -> Interval | None:
        """Return the ratio that is reported: CPU time for one thread, wall time for several threads.

        Wall time counts for several threads because a call waits for the slowest of them.
        """
        return self.cpu_ratio if threads == 1 else self.wall_ratio


@dataclass(frozen=True)
class Measurement:
    """One use of one table at one batch size.

    Attributes:
        table: name of the table, or the data that it was made from.
        method: ``dpq``, ...
        num_embeddings: rows n.
        embedding_dim: columns d.
        packed_bytes: bytes of the packed tensors.
        session_bytes: most session memory of the table.
        dense_bytes: bytes of the float32 table that it replaces.
        use: ``rows``, ``bag (mean)`` (or its other modes), ``logits``, ``topk`` or ``kernel``.
        k: number of the largest logits; None except for ``topk``.
        batch: ids or hidden states per call.
        items: ``ids`` or ``states``.
        ids: distribution of the ids.
        cache: ``warm`` or ``cold``.
        threads: threads of a call, in every library.
        operations: least operations of a call.
        bytes: least bytes that a call reads and writes.
        gigaflops: operations / our CPU time.
        gigabytes_per_second: bytes / our CPU time.
        ours: figure of our kernel.
        peers: figures of all peers.
    """

    table: str
    method: str
    num_embeddings: int
    embedding_dim: int
    packed_bytes: int
    session_bytes: int
    dense_bytes: int
    use: str
    k: int | None
    batch: int
    items: str
    ids: str
    cache: str
    threads: int
    operations: float
    bytes: float
    gigaflops: float
    gigabytes_per_second: float
    ours: Figure
    peers: tuple[Figure, ...]

    @property
    def call(self) -> str:
        """Return a description of the call: batch, k, ids, cache, threads."""
        k = "" if self.k is None else f", k = {self.k}"
        ids = f", {self.ids}" if self.items == "ids" else ""
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        return f"B = {self.batch:,}{k}{ids}, {self.cache}{threads}"


@dataclass(frozen=True)
class Roofs:
    """Upper limits of one thread of the machine.

    Attributes:
        read: GB/s from each level of the memory.
        multiply_add: GFLOP/s of float32 multiply-adds in registers.
    """

    read: Mapping[str, float]
    multiply_add: float


@dataclass(frozen=True, repr=False)
class BenchReport(Shown):
    """Report of `bench`.

    Attributes:
        file: file that holds the tables; None for random tables.
        seed: seed of tables, ids and order.
        rounds: number of rounds in the figures.
        machine: processor, versions, load.
        method: clocks, order and caches, as a text.
        roofs: upper limits of the machine.
        measurements: in the order in which they were made.
    """

    file: str | None
    seed: int
    rounds: int
    machine: Mapping[str, str]
    method: str
    roofs: Roofs
    measurements: tuple[Measurement, ...]
    view = "edge_embed.report.views.bench:render"

    def to_json(self) -> dict[str, Any]:
        """Return plain data with stable keys, ready for ``json.dumps``."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}
