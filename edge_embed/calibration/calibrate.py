"""Fit of stored values to the outputs of the dense model.

    minimise over v:  sum over examples of distance(f(x; E), f(x; C(v)))          `edge_embed.calibration.distance`

f is the model, E its dense tables, C(v) the compressed ones with stored values v. Codes stay: the file keeps its size.
Adam takes the steps (Kingma and Ba 2015), with a rate in proportion to the size of each array, which falls to 0.
Source of the objective: "Distilling the Knowledge in a Neural Network" (Hinton, Vinyals and Dean 2015).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, count, islice

import torch
from torch import Tensor

from edge_embed.calibration.distance import distance
from edge_embed.calibration.examples import OPTION, Example, Examples
from edge_embed.calibration.stored_values import StoredTable, Values, stored_tables
from edge_embed.calibration.student import Student
from edge_embed.errors import BadInputError, EdgeEmbedError, one_line
from edge_embed.lowering.graph import Progress
from edge_embed.program.program import Program, ProgramModule
from edge_embed.report.results.calibration import Calibration

STEPS = 1000
_RATE = 0.02  # of the root mean square of an array
_RATE_BY_ERROR = 0.2  # of it, times the relative error of the rows: values of tables that are nearly exact move less
_WARM = 20  # steps in which the rate grows
_BETAS = (0.9, 0.99)
_STEP = "calibration"

_LOG = logging.getLogger(__name__)


def calibrated(
    dense: Program,
    small: Program,
    errors: Mapping[str, float],
    examples: Examples,
    steps: int,
    seed: int,
    progress: Progress,
) -> tuple[Values, Calibration]:
    """Return values that bring the outputs of a compressed program closer to those of the dense one.

    Args:
        dense: the model before compression.
        small: the compressed model, which stays unchanged.
        errors: relative error of the rows of each compressed table by name; that of other tables counts as 1.
        examples: inputs of both.
        steps: number of steps of the fit.
        seed: random seed of the order of examples.
        progress: called with (step, done, total).

    Raises:
        BadInputError: the model fails on an example, or its outputs have no gradient or are not finite.
    """
    teacher, student = examples.program_of(dense), examples.program_of(small)
    tables = stored_tables(student)
    stored = {name: value for table in tables.values() for name, value in table.values}
    fit = _Fit(teacher, student.module, tables, errors, examples)
    before = fit.measured(examples.held_out)
    for done, example in enumerate(_order(examples.fitted, steps, seed)):
        progress(_STEP, done, steps)
        fit.step(example, _share(done, steps))
    progress(_STEP, steps, steps)
    fit.values = {name: value.detach().to(stored[name].dtype) for name, value in fit.values.items()}  # as in the file
    after = fit.measured(examples.held_out)
    is_kept = after < before
    if not is_kept:
        remedy = "give more examples" if before else "give examples on which the tables matter"
        changed = f"the distance on held-out examples went from {before:.4g} to {after:.4g}"
        _LOG.warning("calibration: %s; the values stay as they were: %s", changed, remedy)
    held_out = len(examples.held_out) / (len(examples.held_out) + len(examples.fitted))
    measure = "KL divergence" if examples.logits_at else "relative squared error"
    counted = str(examples.file), examples.unit, examples.count
    report = Calibration(*counted, held_out, steps, measure, before, after, is_kept)
    return (fit.values if is_kept else {}), report


class _Fit:
    """Values of a compressed model, and steps that improve them."""

    def __init__(
        self,
        teacher: Program,
        student: ProgramModule,
        tables: Mapping[str, StoredTable],
        errors: Mapping[str, float],
        examples: Examples,
    ) -> None:
        self._teacher, self._student, self._tables = teacher, student, tables
        self._file, self._logits_at = examples.file, examples.logits_at
        self.values = {
            name: value.to(torch.float32, copy=True) for table in tables.values() for name, value in table.values
        }
        self._rates = [
            min(_RATE, _RATE_BY_ERROR * errors.get(name, 1.0)) * float(value.square().mean().sqrt())
            for name, table in tables.items()
            for _, value in table.values
        ]
        trained = [value.requires_grad_() for value in self.values.values()]
        self._adam = torch.optim.Adam([{"params": [value]} for value in trained], betas=_BETAS)

    def step(self, example: Example, share: float) -> None:
        """Improve the values on one example, at a share of the full rate."""
        rows = self._rows()
        for dense in rows.values():
            dense.requires_grad_()
        with self._named(example):
            found = self._distance(example, rows)
            if not found.requires_grad:
                raise BadInputError("got outputs that do not depend on its tables, expected others: leave it out")
            found.backward()
        self._adam.zero_grad()
        for name, table in self._tables.items():
            gradient = rows[name].grad
            if gradient is not None:
                table.add_gradients(self.values, gradient)
        for group, rate in zip(self._adam.param_groups, self._rates, strict=True):
            group["lr"] = share * rate
        self._adam.step()

    @torch.no_grad()
    def measured(self, examples: Sequence[Example]) -> float:
        """Return the mean distance over examples."""
        rows, found = self._rows(), list[float]()
        for example in examples:
            with self._named(example):
                found.append(float(self._distance(example, rows)))
        return sum(found) / len(found)

    @torch.no_grad()
    def _rows(self) -> dict[str, Tensor]:
        return {name: table.rows(self.values) for name, table in self._tables.items()}

    def _distance(self, example: Example, rows: Mapping[str, Tensor]) -> Tensor:
        expected = self._teacher.run(*example.inputs)
        found = distance(expected, Student(self._student, rows).run(*example.inputs), self._logits_at)
        if not found.isfinite():
            got = f"outputs at a distance of {float(found.detach())}"
            raise BadInputError(f"got {got}, expected finite ones: leave out such examples")
        return found

    @contextmanager
    def _named(self, example: Example) -> Iterator[None]:
        """Name the file and the example in errors of the model."""
        try:
            yield
        except Exception as error:  # any exception of the model's operators
            reason = str(error) if isinstance(error, EdgeEmbedError) else f"the model fails: {one_line(error)}"
            raise BadInputError(f"{OPTION}: {self._file}: {example.name}: {reason}") from error


def _share(done: int, steps: int) -> float:
    """Return the share of the full rate in a step."""
    return min(1.0, (done + 1) / _WARM) * (1 - done / steps)


def _order(examples: Sequence[Example], steps: int, seed: int) -> Iterator[Example]:
    """Yield so many examples, in a random order, again and again."""
    random = torch.Generator().manual_seed(seed)
    passes = (torch.randperm(len(examples), generator=random).tolist() for _ in count())
    return (examples[at] for at in islice(chain.from_iterable(passes), steps))
