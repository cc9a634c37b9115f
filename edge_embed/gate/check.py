"""Check from budget to report: validation, sizes, the metric, and latency against an earlier file."""

import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path

from edge_embed.errors import BadInputError, suggested
from edge_embed.gate import size_findings
from edge_embed.gate.base_latency import base_findings, compare_with_base, sides_of
from edge_embed.gate.base_latency_tflite import compare_tflite, tflite_sides
from edge_embed.gate.baseline import Baseline, read_baseline
from edge_embed.gate.budget import Budget, LatencyBudget, ParityBudget
from edge_embed.gate.changed_settings import changes_since
from edge_embed.gate.environment import environment
from edge_embed.gate.metric import measure_metric, metric_findings
from edge_embed.gate.missing_checks import dropped_findings
from edge_embed.gate.row_limits import row_findings
from edge_embed.gate.target_findings import target_findings
from edge_embed.gate.text_limits import text_findings
from edge_embed.gate.validation_findings import parity_findings, peer_findings
from edge_embed.inspection.inspect import is_tflite_file
from edge_embed.lowering.graph import LoweredProgram, Progress
from edge_embed.program.program import Program
from edge_embed.report.results.check import BaseResult, CheckReport, MetricResult
from edge_embed.report.results.finding import Finding
from edge_embed.targets.target import NotRunError
from edge_embed.validation.options import Tolerance, ValidationOptions
from edge_embed.validation.pair.program import PairProgram, original_of
from edge_embed.validation.validate_file import validate_file

_Compare = Callable[[Program, LoweredProgram, LatencyBudget, int], BaseResult]


def run_check(
    program: Program,
    lowered: LoweredProgram,
    exported: Path,
    budget: Budget,
    *,
    original: Program | None = None,
    baseline: Path | None,
    base: Path | None,
    base_library: Path | None,
    progress: Progress,
    accept: str = "",
) -> CheckReport:
    """Check an exported file; every failure is in the report.

    Args:
        program: the training form.
        lowered: the same program over packed tables.
        exported: the ``.onnx`` or ``.tflite`` file.
        budget: the requirements.
        original: the program before compression, for the texts of an exported file.
        baseline: report of an earlier check, for growth.
        base: an earlier file of the same kind, for latency.
        base_library: operator library of the base; None uses that of the candidate.
        progress: called with (step, done, total).
        accept: the command that makes this state the baseline, as a text.

    Raises:
        BadInputError: a file is damaged, or the budget names something that does not exist.
    """
    earlier = None if baseline is None else read_baseline(baseline)
    options = _options(budget)
    _check_outputs(budget, program)
    first = program.source if isinstance(program, PairProgram) else None
    beside = _Base(exported, base, base_library, first)  # damaged files are refused before minutes of work
    with budget.named():
        report = validate_file(program, lowered, exported, options, progress, original)
    metric = None if budget.metric is None else measure_metric(budget.metric, original_of(program), exported, base)
    around = environment()
    findings = [*parity_findings(budget.parity, report), *target_findings(budget, report, earlier)]
    findings += row_findings(budget.rows, report)
    findings += text_findings(budget.texts, report)
    findings += _metric(budget, metric, earlier)
    findings += size_findings.size_findings(budget.size, report.sizes)
    if earlier is not None:
        findings += size_findings.growth_findings(budget.size.growth, report.sizes, earlier)
        findings += dropped_findings(earlier, report, metric)
    if earlier is not None and budget.size.zipped_growth is not None:
        growth = budget.size.zipped_growth
        findings.append(size_findings.zipped_growth(growth, report.sizes, earlier, zlib.ZLIB_RUNTIME_VERSION))
    findings += peer_findings(budget.latency.at_most, report)
    findings += beside.findings(program, lowered, budget, options.seed)
    return CheckReport(
        budget=budget.content,
        environment=around,
        findings=tuple(_excused(finding) for finding in findings) if budget.allow_not_run else tuple(findings),
        baseline=None if baseline is None else str(baseline),
        base=beside.result,
        metric=metric,
        validation=report,
        grown={} if earlier is None else size_findings.grown(report.sizes, earlier),
        changes=() if earlier is None else tuple(changes_since(earlier, report, around)),
        accept="" if earlier is None else accept,
    )


def _excused(finding: Finding) -> Finding:
    """Make a finding of size or latency optional; parity checks must still run."""
    return finding if finding.requirement == "parity" else replace(finding, must_run=False)


class _Base:
    """Comparison with an earlier file, if there is one."""

    def __init__(self, exported: Path, base: Path | None, base_library: Path | None, original: Path | None) -> None:
        self.result: BaseResult | None = None
        self._compare: _Compare | None = None
        self._reason = ""
        if base is None and base_library is not None:
            raise BadInputError(f"{base_library}: got a library for the base, but no base; give --base too")
        try:
            self._compare = None if base is None else _comparison(exported, base, base_library, original)
        except NotRunError as error:
            self._reason = str(error)

    def findings(self, program: Program, lowered: LoweredProgram, budget: Budget, seed: int) -> Iterator[Finding]:
        """Measure both files and yield the findings."""
        if self._reason:
            yield Finding("latency", "model against the base", "not run", self._reason)
        if self._compare is not None:
            self.result = self._compare(program, lowered, budget.latency, seed)
            yield from base_findings(self.result, budget.latency.threshold)


def _comparison(exported: Path, base: Path, base_library: Path | None, original: Path | None) -> _Compare:
    """Return the function that measures two files of one kind."""
    if is_tflite_file(exported) != is_tflite_file(base):
        raise BadInputError(
            f"{base}: expected a base of the same format as {exported}; give two .onnx or two .tflite files"
        )
    if not is_tflite_file(exported):
        return partial(compare_with_base, sides_of(exported, base, base_library, original))
    if base_library is not None:
        raise BadInputError(
            f"{base_library}: got an ONNX operator library for TFLite files, which run without it; leave it out"
        )
    files = tflite_sides(exported, base)
    return lambda program, lowered, budget, seed: compare_tflite(files, program, budget, seed)


def _check_outputs(budget: Budget, program: Program) -> None:
    for output in budget.parity.outputs:
        if output not in program.output_names:
            known = ", ".join(program.output_names)
            hint = suggested(output, program.output_names)
            raise BadInputError(f"budget: [parity.outputs]: got {output!r:.80}, {hint}expected one of {known}")


def _options(budget: Budget) -> ValidationOptions:
    """Return the options of the validation; latency against peers is measured only if the budget limits it."""
    iterations = budget.latency.iterations if budget.latency.at_most else 0
    parity, targets = budget.parity, budget.targets
    return ValidationOptions(
        _tolerance(parity, "atol"),
        _tolerance(parity, "rtol"),
        iterations=iterations,
        warmup=5,
        targets=targets.require,
        time_limit=targets.time_limit,
        tokenizer=budget.tokenizer,
        changed_after_export=parity.changed_after_export,
        texts=None if budget.texts is None else budget.texts.file,
    )


def _tolerance(parity: ParityBudget, which: str) -> Tolerance:
    given = {output: getattr(bounds, which) for output, bounds in parity.outputs.items()}
    return Tolerance(getattr(parity, which), {output: value for output, value in given.items() if value is not None})


def _metric(budget: Budget, metric: MetricResult | None, baseline: Baseline | None) -> Iterator[Finding]:
    if budget.metric is not None and metric is not None:
        yield from metric_findings(budget.metric, metric, baseline)
