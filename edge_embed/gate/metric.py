"""Metric of the user's own task on the exported file, the training form and the base.

The function is the user's code and is run: a budget names it as a test names the code that it calls.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edge_embed.errors import BadInputError, TimeLimitError
from edge_embed.gate.baseline import Baseline
from edge_embed.gate.budget import MetricBudget
from edge_embed.inspection.inspect import is_tflite_file
from edge_embed.program.program import Program, array
from edge_embed.program.state_dict import import_function
from edge_embed.report.beside_limit import beside_limit
from edge_embed.report.results.check import MetricResult
from edge_embed.report.results.finding import Finding
from edge_embed.report.results.validation import Status
from edge_embed.steps import step
from edge_embed.targets.tflite.litert import LiteRtModel
from edge_embed.text_arrays import as_texts
from edge_embed.validation.paths import missing_library, open_session, quiet_options, run_session

Arrays = Mapping[str, NDArray[Any]]
Run = Callable[[Arrays], dict[str, NDArray[Any]]]


def measure_metric(budget: MetricBudget, program: Program, exported: Path, base: Path | None) -> MetricResult:
    """Call the metric with each form of the model.

    Raises:
        BadInputError: there is no such function, it raises, or its result is no finite number.
    """
    metric = import_function(budget.function, "[metric] function", "mytask.metrics:accuracy")
    return MetricResult(
        budget.function,
        _value(metric, _exported(exported, program), budget.function, "the exported file"),
        _value(metric, _training_form(program), budget.function, "the training form"),
        None if base is None else _value(metric, _exported(base, program), budget.function, "the base"),
    )


def metric_findings(budget: MetricBudget, result: MetricResult, baseline: Baseline | None) -> Iterator[Finding]:
    """Yield a finding for each reference: training form, base, baseline. It fails if the exported file is worse."""
    references = {"the training form": result.model}
    if result.base is not None:
        references["the base"] = result.base
    if baseline is not None and budget.function in baseline.metrics:
        references["the baseline"] = baseline.metrics[budget.function]
    for name, reference in references.items():
        limit = reference - budget.drop
        close = math.isclose(result.exported, limit, rel_tol=1e-12)  # the difference above is rounded
        status: Status = "passed" if result.exported >= limit or close else "failed"
        than = "less than" if status == "failed" else "at least"
        got, least = beside_limit(result.exported, limit, digits=6)
        detail = f"{got}, {than} {least} ({name}: {reference:.6g}, allowed drop: {budget.drop:g})"
        detail += " (metric.drop)" if status == "failed" else ""
        title = f"metric {budget.function} against {name}"
        yield Finding("parity", title, status, detail, result.exported, limit, "metric")


def _exported(path: Path, program: Program) -> Run:
    return _in_litert(path, program) if is_tflite_file(path) else _session(path)


def _in_litert(path: Path, program: Program) -> Run:
    """Return a function that runs the file in LiteRT with its own operators, without the delegate."""
    model = LiteRtModel(path)
    types = {declared.name: declared.array_type for declared in program.inputs}

    def run(feeds: Arrays) -> dict[str, NDArray[Any]]:
        typed = {name: np.asarray(value, types.get(name)) for name, value in feeds.items()}
        with step(f"metric: {path.name}"):
            outputs = model.call(typed)
        return dict(zip(program.output_names, outputs, strict=True))

    return run


def _session(path: Path) -> Run:
    session = open_session(path, portable=bool(missing_library()), options=quiet_options(threads=1))
    names = [output.name for output in session.get_outputs()]
    return lambda feeds: dict(zip(names, run_session(session, names, feeds, f"metric: {path.name}"), strict=True))


def _training_form(program: Program) -> Run:
    def run(feeds: Arrays) -> dict[str, NDArray[Any]]:
        inputs: list[Any] = [
            as_texts(np.asarray(feeds[declared.name]))
            if declared.holds_texts
            else torch.from_numpy(np.array(feeds[declared.name])).to(declared.dtype)
            for declared in program.inputs
        ]
        outputs = [array(output) for output in program.run(*inputs)]
        return dict(zip(program.output_names, outputs, strict=True))

    return run


def _value(metric: Callable[..., Any], run: Run, function: str, form: str) -> float:
    try:
        found = metric(run)
    except TimeLimitError:
        raise
    except (Exception, SystemExit) as error:  # the user's own code
        reason = f"{type(error).__name__}: {error!s:.200}"
        raise BadInputError(f"metric {function} failed on {form}: {reason}") from error
    try:
        value = float(found)
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadInputError(f"metric {function} on {form}: got {found!r:.80}, expected a number") from error
    if not math.isfinite(value):
        raise BadInputError(f"metric {function} on {form}: got {value}, expected a finite number")
    return value
