"""Result of `edge-embed compare`: several exported models side by side, and the Pareto front among them.

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
        name: name of its report, without folder and suffix if it stays unique.
        file: the exported file.
        methods: methods of its tables: ``dpq``, ...
        on_disk: bytes of all its files.
        zipped: bytes of all its files, each deflated.
        dense_equivalent: bytes of its files if every compressed table were dense float32.
        metric: value of the metric for the exported file; None without a metric.
        model_metric: value of the metric for the training form.
        latency: time of the whole model / time of another, by name of the other.
        tables: method, settings and bytes of each table, by name: ``method``, sizes, ``packed_bytes``, ...
        times: time of lookups in a table / time in the dense one, by table and by lookup.
        status: ``failed`` if its report has a failure, ``not run`` if a check of it did not run.
        machine: machine of the report, as a text.
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
        """Return the compression ratio of the files, relative to files with dense tables."""
        return self.dense_equivalent / self.on_disk


@dataclass(frozen=True, repr=False)
class CompareReport(Shown):
    """Several candidates, compared.

    Attributes:
        metric: the function, higher is better; None if no report has one.
        candidates: smallest first.
    """

    metric: str | None
    candidates: tuple[Candidate, ...]
    view = "edge_embed.report.views.compare:render"

    @property
    def front(self) -> tuple[str, ...]:
        """Return the names on the Pareto front: none that failed, none that another beats in size and metric."""
        eligible = [one for one in self.candidates if one.metric is not None and one.status != "failed"]
        return tuple(one.name for one in eligible if not any(_is_better(other, one) for other in eligible))

    @property
    def note(self) -> str:
        """Return a note on missing figures, or an empty text."""
        return " ".join(filter(None, (self._note_on_metric(), self._note_on_latency())))

    def _note_on_metric(self) -> str:
        without = [one.name for one in self.candidates if one.metric is None]
        if self.metric is None:
            remedy = "write the reports with `edge-embed check --output` and a budget that names a [metric]"
            return f"No report has a metric, so the Pareto front is empty: {remedy}."
        return f"Not on the Pareto front, because the metric is missing: {', '.join(without)}." if without else ""

    def _note_on_latency(self) -> str:
        without = [one for one in self.candidates if not one.latency and not one.times]
        failed = ", ".join(one.name for one in without if one.status == "failed")
        passed = ", ".join(one.name for one in without if one.status != "failed")
        repair = "expected one that passed: repair the failures that it lists, then write it again"
        request = "use the report of `edge-embed validate --json`, or add [latency.at_most] to the budget"
        notes = [f"Got no latency from a failed report ({failed}), {repair}."] if failed else []
        notes += [f"Latency was not measured for {passed}: {request}."] if passed else []
        return " ".join(notes)

    def to_json(self) -> dict[str, Any]:
        """Return plain data with stable keys, ready for ``json.dumps``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "metric": self.metric,
            "front": self.front,
            "candidates": [{**asdict(one), "ratio": one.ratio} for one in self.candidates],
        }


def _is_better(other: Candidate, one: Candidate) -> bool:
    """Return whether ``other`` dominates ``one``: no larger, no lower in the metric, and different."""
    assert one.metric is not None
    assert other.metric is not None
    no_worse = other.on_disk <= one.on_disk and other.metric >= one.metric
    return no_worse and (other.on_disk, other.metric) != (one.on_disk, one.metric)
