"""Settings that differ from the baseline: the reasons for growth."""

from collections.abc import Iterator, Mapping
from typing import Any

from edge_embed.gate.baseline import Baseline
from edge_embed.methods.words import method_words
from edge_embed.report.results.growth import Change
from edge_embed.report.results.validation import TableResult, ValidationReport

_EXPORTER = ("edge-embed", "torch", "onnx")  # entries of the environment that decide which bytes are written


def changes_since(baseline: Baseline, report: ValidationReport, environment: Mapping[str, str]) -> Iterator[Change]:
    """Yield new, removed and resized tables, then changed versions of the exporter."""
    now = {table.name: settings_of(table) for table in report.tables}
    for name in (name for name in now if name not in baseline.tables):  # the order of the model is the same in each run
        yield Change(f"table {name}", "none", _sizes(now[name]))
    for name, before in baseline.tables.items():
        if name not in now:
            yield Change(f"table {name}", _sizes(before), "none")
            continue
        for setting, value in now[name].items():
            # A report of an earlier version has fewer settings.
            if setting in before and before[setting] != _plain(value):
                yield Change(f"table {name}: {setting}", str(before[setting]), str(_plain(value)))
    for package in _EXPORTER:
        before_version = baseline.environment.get(package)
        if before_version is not None and before_version != environment.get(package):
            yield Change(package, before_version, environment.get(package, "none"))


def settings_of(table: TableResult) -> dict[str, Any]:
    """Return method and sizes of a table by name, then the other settings of its packed form."""
    sizes = {"method": table.method, "num_embeddings": table.num_embeddings, "embedding_dim": table.embedding_dim}
    return sizes | dict(table.settings)


def _plain(value: Any) -> Any:
    """Return a value as JSON represents it."""
    return list(value) if isinstance(value, tuple) else value


def _sizes(settings: Mapping[str, Any]) -> str:
    method = method_words(settings["method"], settings["embedding_dim"], settings)
    return f"{method}, {settings['num_embeddings']} x {settings['embedding_dim']}"
