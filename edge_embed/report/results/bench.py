"""The result of `edge-embed bench`, for people and for programs.

Figures are medians over rounds. Ratios are time of the peer / our time, within rounds: above 1 ours is faster.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edge_embed.report.results.interval import Interval
from edge_embed.report.results.shown import Shown

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Figure:
    """One contender in one measurement.

    Attributes:
        name: of the contender.
        what: is called, and what was done before the clock runs.
        cpu_microseconds: a call, on all threads; None where it was not measured.
        wall_microseconds: a call.
        nanoseconds_per_item: CPU time / batch.
        empty_call_microseconds: CPU time of a call that does nothing, by the same way; None where it goes another way.
        empty_call_share: the same / cpu_microseconds.
        cpu_ratio: its CPU time / ours; None for ours.
        wall_ratio: its wall time / ours; None for ours.
        error: largest difference from the packed form in float64 / the largest number there.
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
        """The ratio that counts: CPU time of one thread, wall time of several, of which the slowest is waited for."""
        return self.cpu_ratio if threads == 1 else self.wall_ratio


@dataclass(frozen=True)
class Measurement:
    """One use of one table at one batch.

    Attributes:
        table: its name, or what it was made from.
        method: ``dpq``, ...
        num_embeddings: rows n.
        embedding_dim: columns d.
        packed_bytes: of its tensors.
        session_bytes: that a session takes at most beside them, to be faster.
        dense_bytes: of the float32 table that it stands for.
        use: ``rows``, ``bag (mean)`` (or its other modes), ``logits``, ``topk`` or ``kernel``.
        k: how many of the largest logits are found; None but for ``topk``.
        batch: ids or states a call.
        items: ``ids`` or ``states``.
        ids: their distribution.
        cache: ``warm`` or ``cold``.
        threads: of a call, in every library.
        operations: of a call, at least.
        bytes: that a call reads and writes, at least.
        gigaflops: operations / our CPU time.
        gigabytes_per_second: bytes / our CPU time.
        ours: our figure.
        peers: everyone else's.
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
        """What a call is, in words."""
        k = "" if self.k is None else f", k = {self.k}"
        ids = f", {self.ids}" if self.items == "ids" else ""
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        return f"B = {self.batch:,}{k}{ids}, {self.cache}{threads}"


@dataclass(frozen=True)
class Roofs:
    """What one thread of the machine can do at most.

    Attributes:
        read: GB/s from each level of its memory.
        multiply_add: GFLOP/s in registers, float32.
    """

    read: Mapping[str, float]
    multiply_add: float


@dataclass(frozen=True, repr=False)
class BenchReport(Shown):
    """What `bench` measured.

    Attributes:
        file: whose tables they are; None for random ones.
        seed: of tables, ids and order.
        rounds: that count.
        machine: processor, versions, load.
        method: clocks, order and caches, in words.
        roofs: of the machine.
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
        """Plain data with stable keys, ready for ``json.dumps``."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}
