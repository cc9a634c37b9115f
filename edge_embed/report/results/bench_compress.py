"""Result of `edge-embed bench --use compress`, for people and for programs.

Times are medians over rounds. A ratio is our time / the time of the library within a round: below 1 ours is faster.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from edge_embed.report.results.interval import Interval
from edge_embed.report.results.shown import Shown

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Compressed:
    """Table that one contender compressed.

    Attributes:
        name: name of the contender.
        what: the call that is timed, and the preparation before the clock runs.
        cpu_seconds: CPU time on all threads; None, like all other figures, if not measured.
        wall_seconds: wall time.
        packed_bytes: bytes of the compressed table.
        mean_cosine: mean cosine of its rows and the dense rows.
        relative_error: ||C - E|| / ||E||, Frobenius.
        our_cpu_ratio: our CPU time / CPU time of this contender; None for ours.
        our_wall_ratio: our wall time / wall time of this contender; None for ours.
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
        """Return the ratio that is reported: CPU time for one thread, wall time for several threads.

        Wall time counts for several threads because a call waits for the slowest of them.
        """
        return self.our_cpu_ratio if threads == 1 else self.our_wall_ratio


@dataclass(frozen=True)
class CompressMeasurement:
    """One table, compressed with one setting by every contender.

    Attributes:
        table: name of the table, or the data that it was made from.
        num_embeddings: rows n.
        embedding_dim: columns d.
        dense_bytes: bytes of the float32 table.
        method: ``dpq``, ...
        setting: sizes of the method.
        task: ``table`` for the whole fit; ``codes`` for the assignment of codes to given centroids.
        threads: threads of every contender.
        ours: figures of our fit.
        peers: figures of all peers.
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
        """Return a description: method, setting, task and threads."""
        threads = f", {self.threads} threads" if self.threads > 1 else ""
        return f"{self.method} {self.setting}{', codes only' if self.task == 'codes' else ''}{threads}"


@dataclass(frozen=True, repr=False)
class CompressBench(Shown):
    """Report of `bench --use compress`.

    Attributes:
        file: file that holds the tables; None for random tables.
        seed: seed of tables, methods and order.
        rounds: number of rounds in the figures.
        machine: processor, versions, load.
        method: tables, clocks and order, as a text.
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
        """Return plain data with stable keys, ready for ``json.dumps``."""
        return {"schema_version": SCHEMA_VERSION, **asdict(self)}
