"""View of a comparison on the terminal, and its rows of text for HTML and Markdown."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rich.console import Group, RenderableType

from edge_embed.methods.words import method_words
from edge_embed.report.results.compare import CompareReport
from edge_embed.report.views.folded_table import FoldedTable
from edge_embed.report.views.words import cell

MODEL_TEXTS, TABLE_TEXTS = 2, 5  # number of text columns, which come before the figures


def render(report: CompareReport) -> RenderableType:
    """Return a table of the models, and one of their tables."""
    models = _grid(model_columns(report), model_rows(report), MODEL_TEXTS)
    tables = _grid(table_columns(), table_rows(report), TABLE_TEXTS)
    return Group(models, *([tables] if tables.row_count else []), *([cell(report.note)] if report.note else []))


def model_columns(report: CompareReport) -> tuple[str, ...]:
    """Return the titles of the columns of `model_rows`; columns after `MODEL_TEXTS` are figures."""
    metric = () if report.metric is None else (report.metric, "training form")
    front = () if report.metric is None else ("front",)
    return ("model", "methods", "bytes on disk", "zipped", "ratio", *metric, *_latencies(report), *front, "checks")


def model_rows(report: CompareReport) -> Iterator[tuple[str, ...]]:
    """Yield one row for each candidate."""
    for one in report.candidates:
        sizes = (f"{one.on_disk:,}", f"{one.zipped:,}", f"{one.ratio:.1f}x")
        metric = () if report.metric is None else (_figure(one.metric), _figure(one.model_metric))
        latency = (_figure(one.latency.get(name), 3) for name in _latency_names(report))
        front = () if report.metric is None else ("yes" if one.name in report.front else "",)
        methods = sorted({*map(_method, one.tables.values())}) or one.methods
        yield (one.name, ", ".join(methods), *sizes, *metric, *latency, *front, one.status)


def table_columns() -> tuple[str, ...]:
    """Return the titles of the columns of `table_rows`."""
    return ("model", "table", "method", "rows x columns", "settings", "bytes", "ratio", "time / dense")


def table_rows(report: CompareReport) -> Iterator[tuple[str, ...]]:
    """Yield one row for each table of each candidate: method, settings and bytes."""
    for one in report.candidates:
        for name, table in one.tables.items():
            yield (one.name, name, *_table_cells(table), _dense_times(one.times.get(name, {})))


def _latency_names(report: CompareReport) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for one in report.candidates for name in one.latency))


def _latencies(report: CompareReport) -> Iterator[str]:
    return (f"time / {name}" for name in _latency_names(report))


def _grid(columns: Iterable[str], rows: Iterable[Iterable[str]], texts: int) -> FoldedTable:
    """Return a table whose first columns are texts, and the others figures."""
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
    """Return the range of the times over numbers and distributions of ids."""
    if not times:
        return ""
    low, high = (f"{pick(times.values()):.3g}" for pick in (min, max))
    return low if low == high else f"{low} to {high}"


def _figure(value: float | None, digits: int = 6) -> str:
    return "" if value is None else f"{value:.{digits}g}"
