"""The result of `edge-embed compare`: several exported models side by side, and which of them are worth choosing.

`CompareReport.to_json` is the schema, version 1; the class docstrings below explain its keys. Every number is finite or
null.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Group, RenderableType

from edge_embed.report.shown import FoldedTable, Shown
from edge_embed.report.validation import Status
from edge_embed.report.words import cell, method_words

SCHEMA_VERSION = 1
KIND = "edge-embed compare"
MODEL_TEXTS, TABLE_TEXTS = 2, 5  # columns of words before those of figures


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

    def columns(self) -> tuple[str, ...]:
        """The heads of `rows`; behind `MODEL_TEXTS` columns they are figures."""
        metric = () if self.metric is None else (self.metric, "the training form")
        front = () if self.metric is None else ("front",)
        return ("model", "methods", "bytes on disk", "zipped", "ratio", *metric, *self._latencies(), *front, "checks")

    def rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each candidate."""
        for one in self.candidates:
            sizes = (f"{one.on_disk:,}", f"{one.zipped:,}", f"{one.ratio:.1f}x")
            metric = () if self.metric is None else (_figure(one.metric), _figure(one.model_metric))
            latency = (_figure(one.latency.get(name), 3) for name in self._latency_names())
            front = () if self.metric is None else ("yes" if one.name in self.front else "",)
            methods = sorted({*map(_method, one.tables.values())}) or one.methods
            yield (one.name, ", ".join(methods), *sizes, *metric, *latency, *front, one.status)

    def table_columns(self) -> tuple[str, ...]:
        """The heads of `table_rows`."""
        return ("model", "table", "method", "rows x columns", "settings", "bytes", "ratio", "time / dense")

    def table_rows(self) -> Iterator[tuple[str, ...]]:
        """A row for each table of each candidate: what it is made with, what it takes."""
        for one in self.candidates:
            for name, table in one.tables.items():
                yield (one.name, name, *_table_cells(table), _dense_times(one.times.get(name, {})))

    def _latency_names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for one in self.candidates for name in one.latency))

    def _latencies(self) -> Iterator[str]:
        return (f"time / {name}" for name in self._latency_names())

    def to_json(self) -> dict[str, Any]:
        """Plain data with stable keys, ready for ``json.dumps``."""
        return {
            "schema_version": SCHEMA_VERSION,
            "kind": KIND,
            "metric": self.metric,
            "front": self.front,
            "candidates": [{**asdict(one), "ratio": one.ratio} for one in self.candidates],
        }

    def render(self) -> RenderableType:
        """A table for the terminal."""
        models = _grid(self.columns(), self.rows(), MODEL_TEXTS)
        tables = _grid(self.table_columns(), self.table_rows(), TABLE_TEXTS)
        return Group(models, *([tables] if tables.row_count else []), *([cell(self.note)] if self.note else []))


def _grid(columns: Iterable[str], rows: Iterable[Iterable[str]], texts: int) -> FoldedTable:
    """A table whose first columns are texts, the others figures."""
    shown = FoldedTable()
    for column in columns:
        shown.add_column(cell(column), justify="right" if len(shown.columns) >= texts else "left")
    for row in rows:
        shown.add_row(*map(cell, row))
    return shown


def _table_cells(table: Mapping[str, Any]) -> tuple[str, ...]:
    settings = ", ".join(f"{name}={_setting(value)}" for name, value in table["settings"].items() if value)
    shape = f"{table['num_embeddings']:,} x {table['embedding_dim']}"
    return (_method(table), shape, settings, f"{table['packed_bytes']:,}", f"{table['ratio']:.1f}x")


def _method(table: Mapping[str, Any]) -> str:
    return method_words(table["method"], table["embedding_dim"], table["settings"])


def _setting(value: Any) -> str:
    return "x".join(map(str, value)) if isinstance(value, list) else str(value)


def _dense_times(times: Mapping[str, float]) -> str:
    """The range over numbers and distributions of ids."""
    if not times:
        return ""
    low, high = (f"{pick(times.values()):.3g}" for pick in (min, max))
    return low if low == high else f"{low} to {high}"


def _is_better(other: Candidate, one: Candidate) -> bool:
    """Whether a choice of the one would be a mistake, for there is the other."""
    assert one.metric is not None
    assert other.metric is not None
    no_worse = other.on_disk <= one.on_disk and other.metric >= one.metric
    return no_worse and (other.on_disk, other.metric) != (one.on_disk, one.metric)


def _figure(value: float | None, digits: int = 6) -> str:
    return "" if value is None else f"{value:.{digits}g}"
