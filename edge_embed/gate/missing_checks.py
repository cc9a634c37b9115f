"""Checks of an earlier report that a new one lacks: no check disappears silently."""

from collections.abc import Iterator
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.gate.baseline import Baseline, read_baseline
from edge_embed.report.results.byte_parts import by_table
from edge_embed.report.results.check import CheckReport, MetricResult
from edge_embed.report.results.finding import Finding
from edge_embed.report.results.validation import ValidationReport

_REMEDY = "add it to the budget again, or create the baseline again without it"
_REPLACE = "compress it again, or replace the baseline (--accept)"


def dropped_findings(baseline: Baseline, report: ValidationReport, metric: MetricResult | None) -> Iterator[Finding]:
    """Yield metrics and targets, which must run again, and tables, which may go because the model shrinks."""
    for function, value in baseline.metrics.items():
        if metric is None or function != metric.function:
            detail = f"measured for the baseline ({value:.6g}), no longer in the budget; {_REMEDY}"
            yield Finding("parity", f"metric {function}", "not run", detail)
    for target in baseline.targets:
        if target not in {result.name for result in report.targets}:
            detail = f"run for the baseline, no longer in the budget; {_REMEDY}"
            yield Finding("parity", f"target {target}", "not run", detail)
    now = by_table(report.sizes.parts)
    for table, size in by_table(baseline.parts).items():
        if table not in now:
            detail = f"in the baseline ({size:,} bytes), missing from the file; {_REPLACE}"
            yield Finding("size", f"growth of table {table}", "not run", detail, unit="bytes", must_run=False)


def warnings_of_replacing(path: Path, report: CheckReport) -> tuple[str, ...]:
    """Return a sentence for each entry that the report at ``path`` has, if there is one, and the new one lacks."""
    try:
        earlier = read_baseline(path)
    except BadInputError:  # there is no baseline, or an invalid one
        return ()
    found = dropped_findings(earlier, report.validation, report.metric)
    return tuple(f"{finding.name}: in the replaced report {path}, missing from the new one" for finding in found)
