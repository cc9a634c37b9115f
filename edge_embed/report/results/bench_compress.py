"""The result of `edge-embed bench --use compress`, for people and for programs.

Times are medians over rounds. Ratios are our time / the time of the library, within rounds: below 1 ours is faster.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edge_embed.report.results.interval import Interval
from edge_embed.report.results.shown import Shown

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Compressed:
    """What one contender made of a table.

    Attributes:
        name: of the contender.
        what: is called, and what was done before the clock runs.
        cpu_seconds: on all threads; None where it was not measured, and so are the others.
        wall_seconds: that went by.
        packed_bytes: of what it made.
        mean_cosine: of its rows and those of the dense table.
        relative_error: ||C - E|| / ||E||, Frobenius.
        our_cpu_ratio: our CPU time / its; None for ours.
        our_wall_ratio: our wall time / its; None for ours.
        reason: why it was not measured.
    """

    name: str
    what: str
    cpu_seconds: float | None = None
    wall_seconds: float | None = None
    packed_bytes: int | None = None
    mean_cosine: float | None = None
    relative_error: float | None = None
    our_cpu_ratio: Interval | None = None
    our_wall_ratio: Interval | None = None
    reason: str = ""

    def ratio(self, threads: int) -> Interval | None:
        """The ratio that counts: CPU time of one thread, wall time of several, of which the slowest is waited for."""
        return self.our_cpu_ratio if threads == 1 else self.our_wall_ratio


@dataclass(frozen=True)
class CompressMeasurement:
    """One table made small in one way.

    Attributes:
        table: its name, or what it was made from.
        num_embeddings: rows n.
        embedding_dim: columns d.
        dense_bytes: of the float32 table.
        method: ``dpq``, ...
        setting: its sizes.
        task: ``table``: all of it; ``codes``: those alone, of given centroids.
        threads: of every contender.
        ours: our figures.
        peers: everyone else's.
    """

    table: str
    num_embeddings: int
    embedding_dim: int
    dense_bytes: int
    method: str
    setting: str
    task: str
    threads: int
    ours: Compressed
    peers: tuple[Compressed, ...]

    @property
    def words(self) -> str:
        """What is made, in words."""
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        return f"{self.method} {self.setting}{', codes alone' if self.task == 'codes' else ''}{threads}"


@dataclass(frozen=True, repr=False)
class CompressBench(Shown):
    """What `bench` measured of compressing.

    Attributes:
        file: whose tables they are; None for random ones.
        seed: of tables, methods and order.
        rounds: that count.
        machine: processor, versions, load.
        method: tables, clocks and order, in words.
        measurements: in the order in which they were made.
    """

    file: str | None
    seed: int
    rounds: int
    machine: Mapping[str, str]
    method: str
    measurements: tuple[CompressMeasurement, ...]
    view = "edge_embed.report.views.bench_compress:render"

    def to_json(self) -> dict[str, Any]:
        """Plain data with stable keys, ready for ``json.dumps``."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}
