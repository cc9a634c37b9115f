"""Comparison of the whole model on every path with the training form: |a - b| <= atol + rtol |b|.

Integers and Booleans must be equal. Ids of the highest logits are an exception: the logits that they stand for are
compared. A NaN or an infinity fails wherever it appears, in the training form too, because an undefined value cannot be
compared.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import fx

from edge_embed.errors import TimeLimitError, one_line
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.program.program import ProgramInterpreter, array
from edge_embed.report.beside_limit import beside_limit
from edge_embed.report.results.validation import ERROR_EDGES, OutputResult, PathResult, Status, TargetResult
from edge_embed.steps import step
from edge_embed.targets.reference import open_model
from edge_embed.targets.target import Feeds, NotRunError, RunFailedError, RunOptions, Subject, Target, TargetRun
from edge_embed.text_arrays import as_texts, holds_texts
from edge_embed.validation import paths
from edge_embed.validation.exported_file import ExportedModel
from edge_embed.validation.model_inputs import ModelCase
from edge_embed.validation.options import ValidationOptions
from edge_embed.validation.table_paths import packed_call
from edge_embed.validation.tables import Table

Arrays = Sequence[NDArray[Any]]
RunModel = Callable[[ModelCase], Arrays]

_QUANTILE = 0.999


@dataclass
class _Error:
    """Errors found so far for one output on one path."""

    largest: float = 0.0
    total: float = 0.0
    errors: list[NDArray[np.float64]] = field(default_factory=list)
    values: int = 0
    problem: str = ""
    finite: bool = field(default=True)
    histogram: NDArray[np.int64] = field(default_factory=lambda: np.zeros(len(ERROR_EDGES) + 2, np.int64))
    worst: float = 0.0
    worst_case: str = ""

    def add(self, case: str, got: NDArray[Any], expected: NDArray[Any], atol: float, rtol: float) -> None:
        """Compare one case; the first problem is kept."""
        self.values += got.size
        problem = _mismatch(got, expected)
        if not problem and holds_texts(got):
            problem = _unequal(got, expected)
        elif not problem:
            # In float64, because a difference of float32 near the largest numbers would overflow.
            wide, exact = got.astype(np.float64), expected.astype(np.float64)
            with np.errstate(invalid="ignore"):  # infinities, such as of masked logits, are equal or far apart
                error = np.where(wide == exact, 0.0, np.abs(wide - exact))
            self.finite = self.finite and bool(np.isfinite(error).all())
            self.largest = max(self.largest, float(error.max(initial=0.0)))
            self.total += float(error.sum())
            self.errors.append(error.reshape(-1))
            self._count(error)
            problem = _exceeds(error, exact, atol, rtol) if _is_float(got) else _unequal(got, expected)
            self._keep_worst(case, error, atol + rtol * np.abs(exact))
        else:
            self.finite, self.worst, self.worst_case = False, math.inf, self.worst_case or case
        self.problem = self.problem or (f"{case}: {problem}" if problem else "")

    def _count(self, error: NDArray[np.float64]) -> None:
        """Count errors by decade; infinite errors count in the last."""
        places = np.searchsorted(ERROR_EDGES, error.reshape(-1), side="left") + 1
        places[error.reshape(-1) == 0] = 0
        self.histogram += np.bincount(places, minlength=len(self.histogram))

    def _keep_worst(self, case: str, error: NDArray[np.float64], allowed: NDArray[np.float64]) -> None:
        """Keep the case with the largest deviation, in multiples of the allowed one."""
        with np.errstate(divide="ignore", invalid="ignore"):
            worst = float(np.where(error == 0, 0.0, error / allowed).max(initial=0.0))
        if worst > self.worst:
            self.worst, self.worst_case = worst, case

    @property
    def quantile(self) -> float:
        """The smallest observed error that a share `_QUANTILE` of all values does not exceed."""
        return float(np.quantile(np.concatenate(self.errors), _QUANTILE, method="higher"))


class OracleInterpreter(ProgramInterpreter):
    """Runs a lowered program with packed tables in numpy instead of packed operators."""

    def __init__(self, lowered: LoweredProgram) -> None:
        super().__init__(lowered.program.module)
        self._tables = {name: Table(name, packed) for name, packed in lowered.tables.items()}

    def run_node(self, n: fx.Node) -> Any:
        """Run one node of the graph."""
        call = packed_call(n, self._tables)
        if call is None:
            return super().run_node(n)
        arguments, _ = self.fetch_args_kwargs_from_env(n)
        results = tuple(map(torch.from_numpy, call.oracle(call.feeds(arguments))))
        return results if len(results) > 1 else results[0]


def compare_model(
    lowered: LoweredProgram,
    exported: ExportedModel,
    cases: list[ModelCase],
    options: ValidationOptions,
    on_path: Callable[[], None],
) -> tuple[PathResult, ...]:
    """Run all cases on all paths; the cases hold the outputs of the training form."""
    results = compare_lowered(lowered, cases, options)
    on_path()
    results.append(
        run_path(paths.REFERENCE, lambda: _reference(lowered, exported), lowered.program.output_names, cases, options)
    )
    on_path()
    return (*results, *compare_sessions(lowered, exported.path, cases, options, on_path))


def compare_sessions(
    lowered: LoweredProgram,
    file: Path,
    cases: list[ModelCase],
    options: ValidationOptions,
    on_path: Callable[[], None],
) -> Iterator[PathResult]:
    """Yield the results of a file in ONNX Runtime, without and with the operator library."""
    for portable in (True, False):
        opener = partial(_session, lowered, file, portable)
        name = paths.PORTABLE if portable else paths.CUSTOM
        yield run_path(name, opener, lowered.program.output_names, cases, options)
        on_path()


def compare_lowered(lowered: LoweredProgram, cases: list[ModelCase], options: ValidationOptions) -> list[PathResult]:
    """Return the results of the two paths that need no file: the training form and the packed oracle."""
    names = lowered.program.output_names
    oracle = run_path(paths.ORACLE, lambda: partial(_run_oracle, lowered), names, cases, options)
    return [training_form(lowered, cases, options), oracle]


@torch.no_grad()
def _run_oracle(lowered: LoweredProgram, case: ModelCase) -> Arrays:
    with step(f"{paths.ORACLE}: {case.name}"):
        return [array(output) for output in OracleInterpreter(lowered).run(*case.inputs)]


def _reference(lowered: LoweredProgram, exported: ExportedModel) -> RunModel:
    evaluated = open_model(exported.path, lowered.program.output_names)
    return lambda case: evaluated.run([case.feeds(lowered.program)], RunOptions()).outputs[0]


def _session(lowered: LoweredProgram, file: Path, portable: bool) -> RunModel:
    session, names = paths.open_session(file, portable), lowered.program.output_names
    path = paths.PORTABLE if portable else paths.CUSTOM
    return lambda case: paths.run_session(session, names, case.feeds(lowered.program), f"{path}: {case.name}")


def compare_target(
    target: Target,
    subject: Subject,
    cases: list[ModelCase],
    feeds: Sequence[Feeds],
    options: ValidationOptions,
    run_options: RunOptions,
) -> TargetResult:
    """Run all cases on a target with the feeds of each; the result states missing parts or a failure."""
    ran: list[TargetRun] = []

    def opener() -> RunModel:
        if lacks := target.lacks():
            raise NotRunError("; ".join(f"{problem.what}: {problem.remedy}" for problem in lacks))
        with target.prepare(subject, run_options) as prepared:
            run = prepared.run(feeds, run_options)
        ran.append(run)
        outputs = iter(run.outputs)
        return lambda _: next(outputs)

    path = run_path(target.name, opener, subject.program.output_names, cases, options)
    run = ran[0] if ran else TargetRun((), {})
    evidence = run.evidence or target.evidence
    return TargetResult(
        path.name, path.status, path.detail, path.outputs, evidence, run.versions, run.times, run.counters
    )


def training_form(lowered: LoweredProgram, cases: list[ModelCase], options: ValidationOptions) -> PathResult:
    """Return the result of the training form, whose outputs the cases hold."""
    outputs = []
    for index, name in enumerate(lowered.program.output_names):
        arrays = [(case.name, array(case.outputs[index])) for case in cases]
        wrong = [f"{case}: {_not_numbers(output)}" for case, output in arrays if _not_numbers(output)]
        status: Status = "failed" if wrong else "passed"
        count = sum(output.size for _, output in arrays)
        detail = wrong[0] if wrong else f"{count:,} numbers"
        bounds = options.atol.of(name), options.rtol.of(name)
        outputs.append(OutputResult(name, status, None, None, None, *bounds, count, detail))
    return _path_result(paths.TRAINING, outputs)


def run_path(
    name: str,
    opener: Callable[[], RunModel],
    output_names: tuple[str, ...],
    cases: list[ModelCase],
    options: ValidationOptions,
) -> PathResult:
    """Run all cases on one path and compare its outputs with those of the cases."""
    errors, scores = {output: _Error() for output in output_names}, cases[0].scores
    case_name = "cannot be opened"
    try:
        run = opener()
        for case in cases:
            case_name = case.name
            for index, (output, got) in enumerate(zip(output_names, run(case), strict=True)):
                bounds = options.atol.of(output), options.rtol.of(output)
                errors[output].add(case.name, *_scored(case, index, got), *bounds)
    except TimeLimitError:
        raise
    except NotRunError as error:
        return PathResult(name, "not run", str(error), ())
    except RunFailedError as error:  # its message already states what failed
        return PathResult(name, "failed", str(error), ())
    except Exception as error:  # any exception of a runtime means that the path does not run
        return PathResult(name, "failed", f"{case_name}: {one_line(error)}", ())
    outputs = [
        _output_result(output, errors[output], options, exact=not (_is_float(array(expected)) or index in scores))
        for index, (output, expected) in enumerate(zip(output_names, cases[0].outputs, strict=True))
    ]
    return _path_result(name, outputs)


def _scored(case: ModelCase, index: int, got: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return an output and the expected one, or the scores of their ids."""
    got = as_texts(got)
    expected, score = array(case.outputs[index]), case.scores.get(index)
    if score is None or _mismatch(got, expected):
        return got, expected
    return score(got), score(expected)


def _output_result(name: str, error: _Error, options: ValidationOptions, exact: bool) -> OutputResult:
    known = error.finite and any(len(errors) for errors in error.errors)  # texts have none
    detail = error.problem
    if not detail and exact:
        detail = f"all {error.values:,} values equal"
    elif not detail:
        detail = (
            f"all {error.values:,} values close (atol: {options.atol.of(name):g}, rtol: {options.rtol.of(name):g}); "
            f"absolute error: max {error.largest:.2g}, mean {error.total / max(1, error.values):.2g}"
        )
    return OutputResult(
        name,
        "failed" if error.problem else "passed",
        error.largest if known else None,
        error.total / error.values if known else None,
        error.quantile if known else None,
        options.atol.of(name),
        options.rtol.of(name),
        error.values,
        detail,
        tuple(map(int, error.histogram)) if error.histogram.any() else (),
        error.worst_case,
    )


def _path_result(name: str, outputs: list[OutputResult]) -> PathResult:
    wrong = [f"{output.name}: {output.detail}" for output in outputs if output.status == "failed"]
    detail = wrong[0] if wrong else f"{len(outputs)} output(s)"
    return PathResult(name, "failed" if wrong else "passed", detail, tuple(outputs))


def _is_float(values: NDArray[Any]) -> bool:
    return bool(np.issubdtype(values.dtype, np.floating))


def _not_numbers(values: NDArray[Any]) -> str:
    if holds_texts(values):
        return ""
    wrong = np.argwhere(np.isnan(values))
    return f"{len(wrong)} NaN values, the first at {wrong[0].tolist()}" if len(wrong) else ""


def _mismatch(got: NDArray[Any], expected: NDArray[Any]) -> str:
    """Return the reason why two arrays cannot be compared number by number, or an empty string."""
    if (got.dtype, got.shape) != (expected.dtype, expected.shape):
        return f"got {got.dtype} {list(got.shape)}, expected {expected.dtype} {list(expected.shape)}"
    return _not_numbers(got) or _not_numbers(expected)


def _exceeds(error: NDArray[Any], exact: NDArray[Any], atol: float, rtol: float) -> str:
    wrong = np.argwhere((error > atol + rtol * np.abs(exact)) | np.isinf(error))
    if not len(wrong):
        return ""
    at = tuple(wrong[0])
    by, _ = beside_limit(float(error[at]), float(atol + rtol * abs(exact[at])), digits=3)
    allowed = f"allowed atol {atol:g} + rtol {rtol:g} * |{exact[at]:.6g}|"
    return f"{len(wrong)} of {error.size} values differ, at {wrong[0].tolist()} by {by}; {allowed}"


def _unequal(got: NDArray[Any], expected: NDArray[Any]) -> str:
    wrong = np.argwhere(got != expected)
    if not len(wrong):
        return ""
    at = tuple(wrong[0])
    values = f"got {got[at]!s:.80}, expected {expected[at]!s:.80}"
    return f"{len(wrong)} of {got.size} values differ, at {wrong[0].tolist()}: {values}"
