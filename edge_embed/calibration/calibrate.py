"""Fit of stored values to the outputs of the dense model.

    minimise over v:  sum over examples of distance(f(x; E), f(x; C(v)))          `edge_embed.calibration.distance`

f is the model, E its dense tables, C(v) the compressed ones with stored values v. Codes stay: the file keeps its size.
Adam takes the steps (Kingma and Ba 2015), with a rate in proportion to the size of each array, which falls to 0.
Source of the objective: "Distilling the Knowledge in a Neural Network" (Hinton, Vinyals and Dean 2015).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, count, islice

import torch
from torch import Tensor

from edge_embed.calibration.distance import distance
from edge_embed.calibration.examples import Batch, Examples
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
        BadInputError: the outputs have no gradient, or are not finite.
    """
    teacher, student = examples.differentiable(dense), examples.differentiable(small)
    tables = stored_tables(student)
    stored = {name: value for table in tables.values() for name, value in table.values}
    fit = _Fit(teacher, student.module, tables, errors, examples.logits_at)
    before = fit.measured(examples.held_out)
    for done, batch in enumerate(_order(examples.batches, steps, seed)):
        progress(_STEP, done, steps)
        fit.step(batch, _share(done, steps))
    progress(_STEP, steps, steps)
    fit.values = {name: value.detach().to(stored[name].dtype) for name, value in fit.values.items()}  # as in the file
    after = fit.measured(examples.held_out)
    is_kept = after < before
    if not is_kept:
        remedy = "the values stay as they were: give more examples"
        _LOG.warning("calibration: the distance on held-out examples went from %.4g to %.4g; %s", before, after, remedy)
    held_out = len(examples.held_out) / (len(examples.held_out) + len(examples.batches))
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
        logits_at: frozenset[int],
    ) -> None:
        self._teacher, self._student, self._tables, self._logits_at = teacher, student, tables, logits_at
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

    def step(self, batch: Batch, share: float) -> None:
        """Improve the values on one batch, at a share of the full rate."""
        rows = self._rows()
        for dense in rows.values():
            dense.requires_grad_()
        self._differentiate(batch, rows)
        self._adam.zero_grad()
        for name, table in self._tables.items():
            gradient = rows[name].grad
            if gradient is not None:
                table.add_gradients(self.values, gradient)
        for group, rate in zip(self._adam.param_groups, self._rates, strict=True):
            group["lr"] = share * rate
        self._adam.step()

    def _differentiate(self, batch: Batch, rows: Mapping[str, Tensor]) -> None:
        """Compute the gradients of the distance on one batch by the rows."""
        try:
            with torch.enable_grad():
                found = self._distance(batch, rows)
            if found.requires_grad and found.isfinite():
                found.backward()
                return
        except EdgeEmbedError:
            raise
        except Exception as error:  # any exception of the model's operators
            raise BadInputError(f"calibrate: the model has no gradient on an example: {one_line(error)}") from error
        got = "outputs that do not depend on its tables" if found.isfinite() else f"a distance of {float(found)}"
        raise BadInputError(f"calibrate: got {got}, expected finite outputs of type float: leave it out")

    @torch.no_grad()
    def measured(self, batches: Sequence[Batch]) -> float:
        """Return the mean distance over batches."""
        rows = self._rows()
        return sum(float(self._distance(batch, rows)) for batch in batches) / len(batches)

    @torch.no_grad()
    def _rows(self) -> dict[str, Tensor]:
        return {name: table.rows(self.values) for name, table in self._tables.items()}

    def _distance(self, batch: Batch, rows: Mapping[str, Tensor]) -> Tensor:
        expected = self._teacher.run(*batch)
        found = Student(self._student, rows).run(*batch)
        return distance(expected, found, self._logits_at)


def _share(done: int, steps: int) -> float:
    """Return the share of the full rate in a step."""
    return min(1.0, (done + 1) / _WARM) * (1 - done / steps)


def _order(batches: Sequence[Batch], steps: int, seed: int) -> Iterator[Batch]:
    """Yield so many batches, in a random order, again and again."""
    random = torch.Generator().manual_seed(seed)
    passes = (torch.randperm(len(batches), generator=random).tolist() for _ in count())
    return (batches[at] for at in islice(chain.from_iterable(passes), steps))
