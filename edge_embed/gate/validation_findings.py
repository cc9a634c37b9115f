"""Findings from a validation: parity of everything that it compared, and latency against its peers."""

from collections.abc import Iterator, Mapping

from edge_embed.errors import BadInputError
from edge_embed.gate.budget import ParityBudget
from edge_embed.report.beside_limit import beside_limit
from edge_embed.report.results.finding import Finding
from edge_embed.report.results.validation import Check, LatencyResult, OutputResult, Status, ValidationReport

_STATISTICS = {"max": "max_abs_error", "mean": "mean_abs_error", "quantile": "quantile_abs_error"}
_WORDS = {"max": "largest", "mean": "mean", "quantile": "99.9 % quantile of the"}


def parity_findings(budget: ParityBudget, report: ValidationReport) -> Iterator[Finding]:
    """Yield a finding for each check of a validation, then for the bounds on errors.

    Not every model runs on every path, such as the reference evaluator, so a path is not required to run.
    """
    for check in report.structure:
        yield _of(check, check.name)
    for table in report.tables:
        for check in (*table.checks, *table.paths):
            yield _of(check, f"table {table.name}: {check.name}")
    for path in report.model.paths:
        if not path.outputs:
            yield Finding("parity", f"model: {path.name}", path.status, path.detail, must_run=False)
        for output in path.outputs:
            yield Finding("parity", f"model: {path.name}: {output.name}", output.status, output.detail)
            yield from bound_findings(budget, f"model: {path.name}", output)
    yield _of(report.model.kernel, f"model: {report.model.kernel.name}")


def peer_findings(at_most: Mapping[str, float], report: ValidationReport) -> Iterator[Finding]:
    """Yield findings on the time of the custom op against each peer; one fails if its whole interval exceeds the limit.

    Raises:
        BadInputError: the budget names a peer that validation does not compare with.
    """
    for peer, limit in at_most.items():
        found = [_beside(peer, limit, result) for result in report.latency.results if result.peer in (peer, "any")]
        if not found and report.passed:
            known = ", ".join(dict.fromkeys(result.peer for result in report.latency.results))
            raise BadInputError(f"budget: [latency.at_most]: got {peer!r:.80}, expected one of {known}")
        yield from found or [
            Finding("latency", f"beside {peer}", "not run", "latency is not measured after a failed check", None, limit)
        ]


def _beside(peer: str, limit: float, result: LatencyResult) -> Finding:
    ids = "" if result.ids is None else f", {result.ids:,} {result.distribution} ids"
    name = f"{result.subject}{ids} beside {peer}"
    if result.ratio is None or result.low is None:
        return Finding("latency", name, "not run", result.reason, None, limit, "ratio")
    status: Status = "failed" if result.low > limit else "passed"
    low, most = beside_limit(result.low, limit)
    than = f"low end of the interval at most {most}"
    if status == "failed":
        than = f'low end of the interval more than {most} (latency.at_most."{peer}")'
    detail = f"{result.ratio:.4g} ({low} to {result.high:.4g}) times the CPU time of {peer}, {than}"
    return Finding("latency", name, status, detail, result.ratio, limit, "ratio")


def _of(check: Check, name: str) -> Finding:
    return Finding("parity", name, check.status, check.detail, must_run=False)


def bound_findings(budget: ParityBudget, where: str, output: OutputResult) -> Iterator[Finding]:
    """Yield findings on the error bounds of one output."""
    for statistic, attribute in _STATISTICS.items():
        limit = budget.bound(output.name, statistic)
        got: float | None = getattr(output, attribute)
        if limit is None or got is None:  # the training form has no error; non-finite values have failed already
            continue
        status: Status = "failed" if got > limit else "passed"
        of_output = getattr(budget.outputs.get(output.name), statistic, None) is not None
        key = f"parity.outputs.{output.name}.{statistic}" if of_output else f"parity.{statistic}"
        error, most = beside_limit(got, limit, digits=3)
        than = f"more than {most} ({key})" if status == "failed" else f"at most {most}"
        detail = f"{_WORDS[statistic]} absolute error {error}, {than}"
        name = f"{where}: {output.name}: {statistic}"
        yield Finding("parity", name, status, detail, got, limit, "absolute error")
