"""Findings on targets: required runs, and exact counts."""

from collections.abc import Iterator

from edge_embed.gate.baseline import Baseline
from edge_embed.gate.budget import Budget
from edge_embed.gate.quantities import Growth
from edge_embed.gate.validation_findings import bound_findings
from edge_embed.report.results.finding import Finding
from edge_embed.report.results.targets import INSTRUCTIONS
from edge_embed.report.results.validation import Status, TargetResult, ValidationReport


def target_findings(budget: Budget, report: ValidationReport, baseline: Baseline | None) -> Iterator[Finding]:
    """Yield parity on every required target, the error bounds there, and instructions against the baseline."""
    for target in report.targets:
        yield Finding("parity", f"target {target.name}", target.status, target.detail)
        for output in target.outputs:
            yield from bound_findings(budget.parity, f"target {target.name}", output)
        if baseline is not None and INSTRUCTIONS in target.counters:
            yield _instructions(budget.targets.instructions, target, baseline)


def _instructions(growth: Growth, target: TargetResult, baseline: Baseline) -> Finding:
    name, got = f"instructions on {target.name}", target.counters[INSTRUCTIONS]
    before = baseline.instructions.get(target.name)
    if before is None:
        reason = "the baseline has no count for this target; create the baseline again with this budget"
        return Finding("latency", name, "not run", reason, got, None, INSTRUCTIONS)
    limit = growth.limit(before)
    status: Status = "failed" if got > limit else "passed"
    than = f"more than {limit:,} (targets.instructions)" if status == "failed" else f"at most {limit:,}"
    detail = f"{got:,} in a warm call ({got - before:+,} since the baseline), {than}"
    return Finding("latency", name, status, detail, got, limit, INSTRUCTIONS)
