"""The result of `edge-embed compare`: several exported models side by side, and which of them are worth choosing.

`CompareReport.to_json` is the schema, version 1; the class docstrings below explain its keys. Every number is finite or
null.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from edge_embed.report.results.shown import Shown
from edge_embed.report.results.validation import Status

SCHEMA_VERSION = 1
KIND = "edge-embed compare"


@dataclass(frozen=True)
class Candidate:
    """One exported model.

    Attributes:
        name: of its report, without folder and suffix where that tells it from the others.
        file: the exported file.
        methods: of its tables: ``dpq``, ...
        on_disk: bytes of all its files.
        zipped: the same, each deflated.
        dense_equivalent: bytes of its files if every compressed table were dense float32.
        metric: what the metric gave on the exported file; None without one.
        model_metric: what it gave on the training form.
        latency: time of the whole model / time of another, by the name of that.
        tables: what each is made with and takes, by name: ``method``, sizes, ``packed_bytes``, ...
        times: of look-ups in tables / of those in dense ones, by table and by what was looked up.
        status: ``failed`` where its report has a failure, ``not run`` where something in it has not run.
        machine: on which it was looked at, in words.
    """

    name: str
    file: str
    methods: tuple[str, ...]
    on_disk: int
    zipped: int
    dense_equivalent: int
    metric: float | None
    model_metric: float | None
    latency: Mapping[str, float]
    status: Status
    machine: str
    tables: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    times: Mapping[str, Mapping[str, float]] = field(default_factory=dict)

    @property
    def ratio(self) -> float:
        """How many times smaller than with dense tables."""
        return self.dense_equivalent / self.on_disk


@dataclass(frozen=True, repr=False)
class CompareReport(Shown):
    """Candidates beside each other.

    Attributes:
        metric: the function, of which more is better; None where no report has one.
        candidates: smallest first.
    """

    metric: str | None
    candidates: tuple[Candidate, ...]
    view = "edge_embed.report.views.compare:render"

    @property
    def front(self) -> tuple[str, ...]:
        """Names of those than which no other is smaller and as good, or better and as small; none that failed."""
        rivals = [one for one in self.candidates if one.metric is not None and one.status != "failed"]
        return tuple(one.name for one in rivals if not any(_is_better(other, one) for other in rivals))

    @property
    def note(self) -> str:
        """What is missing, empty if nothing is."""
        return " ".join(filter(None, (self._note_on_metric(), self._note_on_latency())))

    def _note_on_metric(self) -> str:
        without = [one.name for one in self.candidates if one.metric is None]
        if self.metric is None:
            return "No report has a metric, so nothing says how good a model is: name one in the budget, [metric]."
        return f"Without the metric, and so no choice: {', '.join(without)}." if without else ""

    def _note_on_latency(self) -> str:
        without = [one.name for one in self.candidates if not one.latency and not one.times]
        remedy = "take the report of `edge-embed validate --json`, or give the budget [latency.at_most]"
        return f"Latency was not measured of {', '.join(without)}: {remedy}." if without else ""

    def to_json(self) -> dict[str, Any]:
        """Plain data with stable keys, ready for ``json.dumps``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "metric": self.metric,
            "front": self.front,
            "candidates": [{**asdict(one), "ratio": one.ratio} for one in self.candidates],
        }


def _is_better(other: Candidate, one: Candidate) -> bool:
    """Whether a choice of the one would be a mistake, for there is the other."""
    assert one.metric is not None
    assert other.metric is not None
    no_worse = other.on_disk <= one.on_disk and other.metric >= one.metric
    return no_worse and (other.on_disk, other.metric) != (one.on_disk, one.metric)
