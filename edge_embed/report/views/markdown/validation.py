"""View of a validation as Markdown: the verdict, failures, sizes, latency, targets; the rest folded."""

from collections.abc import Iterator, Sequence

from edge_embed.report.results.validation import LatencyResult, TableResult, TargetResult, ValidationReport
from edge_embed.report.views.markdown.blocks import (
    MARKS,
    change_tables,
    footnote,
    join,
    memory_table,
    outcomes,
    passed,
    size_table,
    table,
    text,
)


def validation_markdown(report: ValidationReport) -> str:
    """Return the text of the comment."""
    return join(_blocks(report))


def _blocks(report: ValidationReport) -> Iterator[str]:
    status, words = report.verdict
    yield f"### {MARKS[status]} Validation of {text(report.file)}: {words}"
    lines = [(check.status, owner, check.name, check.detail) for owner, check in report.outcomes()]
    yield from outcomes(lines)
    yield _tables(report.tables)
    yield from change_tables(report.model)
    yield size_table(report.sizes, {})
    yield from memory_table(report.sizes)
    if measured := [result for result in report.latency.results if result.ratio is not None]:
        yield _latency(measured)
    if report.targets:
        yield _targets(report.targets)
    yield from passed(lines)
    yield footnote({"seed": str(report.seed), **report.latency.machine})


def _tables(tables: Sequence[TableResult]) -> str:
    rows = (
        [f"{text(one.name)}, {one.method_words}", f"{one.num_embeddings:,} x {one.embedding_dim}",
         f"{one.dense_bytes:,}", f"{one.packed_bytes:,}", f"{one.compression_ratio:.1f}x"]
        for one in tables
    )  # fmt: skip
    return table(["table", "shape", "dense bytes", "packed bytes", "ratio"], rows)


def _latency(results: Sequence[LatencyResult]) -> str:
    rows = (
        [text(f"{result.title} / {result.peer}"), f"{result.ratio:.2f} ({result.low:.2f} to {result.high:.2f})"]
        for result in results
    )
    return table(["time of the custom op / time of the peer", "median, 95 % interval"], rows)


def _targets(targets: Sequence[TargetResult]) -> str:
    def cells(target: TargetResult) -> list[str]:
        times = target.times.milliseconds() if target.times else ("", "", "")
        evidence = target.evidence if target.status != "not run" else ""
        return [f"{MARKS[target.status]} {text(target.name)}", evidence, *times]

    return table(["target", "evidence", "session ms", "first call ms", "call ms"], map(cells, targets))
