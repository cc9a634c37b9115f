"""Check inside a test of the user, through the fixture ``edge_embed``.

def test_model(edge_embed):
    edge_embed.check("build/model.onnx", model="model.pt", budget="edge-embed.toml")
"""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import edge_embed
from edge_embed.files import StrPath
from edge_embed.gate.budget import Budget, read_budget
from edge_embed.gate.report_places import baseline_kept, replace_baseline
from edge_embed.report.results.check import CheckReport


class Checker:
    """Object that the fixture ``edge_embed`` provides.

    Args:
        update: replace baselines instead of comparing with them.
    """

    def __init__(self, update: bool) -> None:
        self._update = update

    def check(
        self, exported: StrPath | None = None, *, model: Any = None, budget: StrPath | None = None, **options: Any
    ) -> CheckReport:
        """Fail the test unless all requirements hold.

        With ``--edge-embed-update-baseline`` nothing is compared with the baseline. The baseline is replaced, or made
        if it is missing, unless something else fails. A warning lists entries of the old baseline that the new one
        lacks.

        Args:
            exported: the ``.onnx`` or ``.tflite`` file; by default the file that the budget names.
            model: a module, the path of a saved one, or a program; by default the model that the budget names.
            budget: path of ``edge-embed.toml``.
            options: options of `edge_embed.check`: ``baseline``, ``base``, ``example_inputs``, ...

        Returns:
            The report.
        """
        limits = Budget() if budget is None else read_budget(Path(budget))
        given: StrPath | None = options.pop("baseline", None)
        baseline = limits.baseline if given is None else Path(given)
        compared = None if self._update else baseline
        with _torch_untraced():
            report = edge_embed.check(model, exported, budget=replace(limits, baseline=compared), **options)
        if report.exit_code:
            failed = replace(report, accept="pytest --edge-embed-update-baseline" if report.accept else "")
            stays = [baseline_kept(baseline)] if self._update and baseline is not None else []
            pytest.fail("\n".join([f"edge-embed check: {report.verdict}", *failed.reasons(), *stays]), pytrace=False)
        if self._update and baseline is not None:
            for warning in replace_baseline(baseline, report):
                warnings.warn(warning, stacklevel=2)
        return report


@contextmanager
def _torch_untraced() -> Iterator[None]:
    """Remove pytest's handlers from torch's trace logger.

    pytest adds a handler to every logger that does not propagate. torch writes thousands of records to its trace logger
    as soon as that has a handler, and a failing test would show all of them.
    """
    trace = logging.getLogger("torch.__trace")
    taken = [handler for handler in trace.handlers if type(handler).__module__.startswith("_pytest.")]
    for handler in taken:
        trace.removeHandler(handler)
    try:
        yield
    finally:
        for handler in taken:
            trace.addHandler(handler)
