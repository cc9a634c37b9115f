"""Page of a check: the requirements, then the sections of its validation."""

from collections.abc import Iterator, Mapping

from edge_embed.report.results.check import BaseResult, CheckReport, Comparison
from edge_embed.report.views.html.figures import size_against_metric, size_bars
from edge_embed.report.views.html.page import Grid, Section, make_page
from edge_embed.report.views.html.validation import validation_sections

_ORDER = ("failed", "not run", "passed")


def check_page(report: CheckReport) -> str:
    """Return the whole report as HTML."""
    outcome = "failed" if report.exit_code else "passed" if report.complete else "not run"
    title = f"Check of {report.validation.file}"
    return make_page(title, (outcome, report.verdict), list(_sections(report)), _facts(report))


def _facts(report: CheckReport) -> Mapping[str, object]:
    return {"file": report.validation.file, "baseline": report.baseline or "none", **report.environment}


def _sections(report: CheckReport) -> Iterator[Section]:
    found = sorted(report.shown(), key=lambda finding: _ORDER.index(finding.status))
    lines = [(finding.status, f"{finding.requirement}: {finding.name}: {finding.detail}") for finding in found]
    lines += [("not run", warning) for warning in report.warnings]
    yield Section("Requirements", report.note, lines=lines)
    yield _parts(report)
    if report.metric is not None:
        yield _metric(report)
    if report.base is not None:
        yield _base(report.base)
    yield from validation_sections(report.validation, checks=False)  # the requirements already list them


def _parts(report: CheckReport) -> Section:
    parts = report.validation.sizes.parts
    rows = [(part.title, f"{part.bytes:,}", f"{report.grown.get(part.title, 0):+,}") for part in parts]
    columns, numbers = ("part of the file", "bytes", "since the baseline"), frozenset({1, 2})
    grid = Grid(columns, rows, numbers) if report.baseline else Grid(columns[:2], [row[:2] for row in rows], numbers)
    return Section(
        "Parts", grid=grid, pictures=[size_bars({part.title: part.bytes for part in parts}, "Bytes by part")]
    )


def _metric(report: CheckReport) -> Section:
    assert report.metric is not None
    sizes, metric = report.validation.sizes, report.metric
    points = {
        "model with dense tables": (sizes.dense_equivalent, metric.model),
        "exported": (sizes.on_disk, metric.exported),
    }
    text = f"{metric.function}; higher is better."
    return Section("Size against accuracy", text, pictures=[size_against_metric(points, metric.function)])


def _base(base: BaseResult) -> Section:
    rows = [
        (one.title, _ratio(one), "" if one.cpu is None else f"{one.base_microseconds:,.1f}",
         "" if one.cpu is None else f"{one.candidate_microseconds:,.1f}", one.reason)
        for one in base.comparisons
    ]  # fmt: skip
    columns = ("", "time / time of the base", "base µs", "candidate µs", "")
    return Section("Latency against the base", base.method, Grid(columns, rows, frozenset({1, 2, 3})))


def _ratio(one: Comparison) -> str:
    return "" if one.cpu is None else f"{one.cpu.median:.3f} ({one.cpu.low:.3f} to {one.cpu.high:.3f})"
