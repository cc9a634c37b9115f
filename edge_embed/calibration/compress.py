"""Compression of a program by examples: of its choice of settings, its fit to dense rows, and that to the outputs.

Rows have the weights of the curvature s (`edge_embed.calibration.curvature`), unless a table has counts or the goal is
a cosine of its rows.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from edge_embed.calibration.calibrate import Target, calibrated, curvatures
from edge_embed.calibration.curvature import Curvature
from edge_embed.calibration.examples import Examples
from edge_embed.calibration.stored_values import Values, with_values
from edge_embed.compression.job import Job
from edge_embed.compression.programs import CompressedProgram, compress_program, with_placeholders
from edge_embed.fitting.found_table import FoundTable
from edge_embed.program.program import Program
from edge_embed.report.results.calibration import Calibration

_LOG = logging.getLogger(__name__)


def compress_by_examples(
    program: Program, tables: Sequence[FoundTable], examples: Examples | None, steps: int, job: Job
) -> CompressedProgram:
    """Return a compressed program that is fitted to examples.

    Args:
        program: the dense program.
        tables: its tables.
        examples: inputs; only the first process has them, and computes with them.
        steps: number of steps of the fit of values.
        job: the request.

    Raises:
        BadInputError: the model fails on an example, or as `compress_program`.
    """
    compressed, targets = weighed(program, tables, examples, job)

    def fit() -> tuple[Values, Calibration]:
        assert examples is not None
        return calibrated(program, compressed, targets, examples, steps, job.plan.seed, job.progress)

    values, calibration = job.processes.same(fit)
    return CompressedProgram(with_values(compressed.model, values), replace(compressed.report, calibration=calibration))


def weighed(
    program: Program, tables: Sequence[FoundTable], examples: Examples | None, job: Job
) -> tuple[CompressedProgram, dict[str, Target]]:
    """Return a program that is compressed with rows weighed by examples, and the goals of its codes by table."""
    dense = {table.name: table for table in tables if not table.reason}
    rows = {name: table.weight for name, table in dense.items()}
    probe = with_placeholders(program, dense.values())

    def measure() -> dict[str, Curvature]:
        assert examples is not None
        return curvatures(probe, rows, examples, job.plan.seed, job.progress)

    measured = job.processes.same(measure)
    for name in (name for name, found in measured.items() if found.is_zero and job.processes.is_first):
        _LOG.warning("calibrate: table %s: no output depends on it in the examples: its rows have equal weights", name)
    weights = {name: found.weights() for name, found in measured.items() if not found.is_zero}
    compressed, made = compress_program(program, tables, replace(job, weights=weights))
    return compressed, {
        name: Target(fitted.approximated(rows[name]), measured[name].turned(fitted.rotation))
        for name, fitted in made.items()
    }
