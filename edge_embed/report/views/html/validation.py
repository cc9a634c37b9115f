"""Page of a validation report."""

from collections.abc import Iterator, Sequence

from edge_embed.report.results.validation import LatencyResult, OutputResult, PathResult, TargetResult, ValidationReport
from edge_embed.report.views.html.figures import Picture, error_histogram, latency_strips, size_bars
from edge_embed.report.views.html.page import Grid, Section, make_page
from edge_embed.report.views.text_predictions import TEXT_COLUMNS, TEXT_TITLE
from edge_embed.report.views.validation import CHANGE_COLUMNS, CHANGE_TITLE


def validation_page(report: ValidationReport) -> str:
    """Return the whole report as HTML."""
    facts = {"file": report.file, "seed": report.seed, **report.latency.machine, "measured": report.latency.method}
    return make_page(f"Validation of {report.file}", report.verdict, list(validation_sections(report)), facts)


def validation_sections(report: ValidationReport, checks: bool = True) -> Iterator[Section]:
    """Yield sizes, checks, errors, latency and targets, for a page of their own or a part of another."""
    yield _sizes(report)
    if checks:
        yield _checks(report)
    if pictures := _errors((*report.model.paths, *report.targets)):
        yield Section("Errors of the whole model", "; ".join(report.model.cases), pictures=pictures)
    if report.model.changes:
        rows = [(change.name, *change.figures()) for change in report.model.changes]
        yield Section("Changes", CHANGE_TITLE, Grid(CHANGE_COLUMNS, rows, frozenset(range(1, len(CHANGE_COLUMNS)))))
    if report.model.texts:
        rows = [report.model.texts.figures()]
        yield Section("Texts", TEXT_TITLE, Grid(TEXT_COLUMNS, rows, frozenset(range(len(TEXT_COLUMNS)))))
    if any(result.ratio is not None for result in report.latency.results):
        yield _latency(report.latency.results)
    if report.targets:
        yield _targets(report.targets)


def _sizes(report: ValidationReport) -> Section:
    sizes = report.sizes
    whole = {"dense equivalent": sizes.dense_equivalent, "on disk": sizes.on_disk, "zipped": sizes.zipped}
    if sizes.original is not None:
        whole |= {"original": sizes.original.on_disk, "original, zipped": sizes.original.zipped}
    if sizes.resident is not None:
        whole["resident"] = sizes.resident
    rows = [
        (table.name, table.method_words, f"{table.num_embeddings:,} x {table.embedding_dim}", f"{table.dense_bytes:,}",
         f"{table.packed_bytes:,}", f"{table.compression_ratio:.1f}x")
        for table in report.tables
    ]  # fmt: skip
    grid = Grid(("table", "method", "shape", "dense bytes", "packed bytes", "ratio"), rows, frozenset({3, 4, 5}))
    return Section("Sizes", grid=grid, pictures=[size_bars(whole, "Sizes in bytes")])


def _checks(report: ValidationReport) -> Section:
    lines = [(check.status, f"{owner}: {check.name}: {check.detail}") for owner, check in report.outcomes()]
    return Section("Checks", lines=lines)


def _errors(paths: Sequence[PathResult]) -> list[Picture]:
    by_output: dict[str, dict[str, OutputResult]] = {}
    for path in paths:
        for output in path.outputs:
            if output.histogram:
                by_output.setdefault(output.name, {})[path.name] = output
    return [error_histogram(name, found) for name, found in by_output.items()]


def _latency(results: Sequence[LatencyResult]) -> Section:
    rows = [
        (result.subject, "" if result.ids is None else f"{result.ids:,}", result.distribution, result.peer,
         f"{result.microseconds:,.1f}", f"{result.ratio:.2f} ({result.low:.2f} to {result.high:.2f})")
        for result in results
        if result.ratio is not None
    ]  # fmt: skip
    columns = ("", "ids per call", "ids", "against", "µs", "ratio, 95 % interval")
    text = "Time of the custom op (TFLite: of the lookup) / time of the peer. Below 1, the peer is slower."
    return Section("Latency", text, Grid(columns, rows, frozenset({1, 4, 5})), [latency_strips(results)])


def _targets(targets: Sequence[TargetResult]) -> Section:
    rows = [_target(target) for target in targets]
    columns = ("target", "", "evidence", "session ms", "first call ms", "call ms", "resident bytes", "versions")
    return Section("Targets", grid=Grid(columns, rows, frozenset({3, 4, 5, 6})))


def _target(target: TargetResult) -> tuple[str, ...]:
    evidence = target.evidence if target.status != "not run" else ""
    times = target.times.milliseconds() if target.times else ("", "", "")
    resident = target.counters.get("resident_bytes")
    versions = ", ".join(f"{name} {version}" for name, version in target.versions.items())
    return (target.name, target.status, evidence, *times, "" if resident is None else f"{resident:,}", versions)
