"""Fit of codes and stored values to the outputs of the dense model.

    minimise over c, v:  sum over examples of distance(f(x; E), f(x; C(c, v)))    `edge_embed.calibration.distance`

f is the model, E its dense tables, C(c, v) the compressed ones with codes c and stored values v. The curvature of the
distance by E is measured before the compression, which weighs rows by it. Sizes stay from there on. Codes and their
centroids are chosen by the curvature again (`edge_embed.calibration.codes`). Then Adam fits all values (Kingma and Ba
2015), with a rate in proportion to the size of each array, which falls to 0.
Source of the objective: "Distilling the Knowledge in a Neural Network" (Hinton, Vinyals and Dean 2015).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, islice

import torch
from torch import Tensor

from edge_embed.calibration.codes import has_codes, nearest_codes
from edge_embed.calibration.curvature import Curvature
from edge_embed.calibration.examples import Example, Examples
from edge_embed.calibration.models import Models, Rows
from edge_embed.calibration.stored_values import StoredTable, Values, stored_tables
from edge_embed.compression.programs import CompressedProgram
from edge_embed.lowering.graph import Progress
from edge_embed.program.program import Program
from edge_embed.report.results.calibration import Calibration
from edge_embed.report.results.compressed import CompressedTable
from edge_embed.report.results.fidelity import Fidelity

STEPS = 1000
_RATE = 0.02  # of the root mean square of an array
_RATE_BY_ERROR = 0.2  # of it, times the relative error of the rows: values of tables that are nearly exact move less
_WARM = 20  # steps in which the rate grows
_BETAS = (0.9, 0.99)
_STEP = "calibration: values"
_CLOSE = 1e-6  # distance that the rounding of the stored numbers may cause

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class Target:
    """Goal of the codes of a compressed table.

    Attributes:
        rows: dense rows that it approximates, [n, d].
        curvature: curvature of the outputs by these rows.
    """

    rows: Tensor
    curvature: Curvature


def curvatures(program: Program, rows: Rows, examples: Examples, seed: int, progress: Progress) -> dict[str, Curvature]:
    """Return the curvature of the outputs of a dense model by the rows of its tables, by name.

    Args:
        program: the model with operators of compressed tables, whatever these hold.
        rows: its dense rows.
        examples: inputs.
        seed: random seed.
        progress: called with (step, done, total).

    Raises:
        BadInputError: the model fails on an example, or its outputs have no gradient.
    """
    student = examples.program_of(program)
    return Models(student, student.module, stored_tables(student), examples).curvatures(rows, seed, progress)


def calibrated(
    dense: Program,
    compressed: CompressedProgram,
    targets: Mapping[str, Target],
    examples: Examples,
    steps: int,
    seed: int,
    progress: Progress,
) -> tuple[Values, Calibration]:
    """Return codes and values that bring the outputs of a compressed program closer to those of the dense one.

    Args:
        dense: the model before compression.
        compressed: the compressed model, which stays unchanged, and its report.
        targets: goals of the codes of compressed tables by name; the codes of other tables stay.
        examples: inputs of both.
        steps: number of steps of the fit of values.
        seed: random seed of the order of examples.
        progress: called with (step, done, total).

    Raises:
        BadInputError: the model fails on an example, or its outputs have no gradient or are not finite.
    """
    student = examples.program_of(compressed.model)
    errors = {table.name: _error_of(table, table.fidelity) for table in compressed.report.tables if table.fidelity}
    models = Models(examples.program_of(dense), student.module, stored_tables(student), examples)
    stored = {name: value for table in models.tables.values() for name, value in table.values}
    arrays = {name: value.to(torch.float32, copy=True) for name, value in stored.items()}
    before = models.measured(arrays)
    chosen = _nearest_codes(models.tables, arrays, targets)
    if chosen and models.measured(arrays | chosen) < before:
        arrays |= chosen
    fit = _Fit(models, arrays, errors)
    for done, example in enumerate(_order(examples.fitted, steps, seed)):
        progress(_STEP, done, steps)
        fit.step(example, _share(done, steps))
    progress(_STEP, steps, steps)
    found = fit.arrays | {name: fit.arrays[name].detach().to(value.dtype) for name, value in stored.items()}
    after = models.measured(found)
    is_kept = after < before
    if not is_kept:
        changed = f"the distance on held-out examples went from {before:.4g} to {after:.4g}"
        _LOG.warning("calibration: %s; the tables stay as they were: %s", changed, _remedy(before))
    held_out = len(examples.held_out) / (len(examples.held_out) + len(examples.fitted))
    measure = "KL divergence" if examples.logits_at else "relative squared error"
    counted = str(examples.file), examples.unit, examples.count
    report = Calibration(*counted, held_out, steps, measure, before, after, is_kept)
    return (found if is_kept else {}), report


def _remedy(before: float) -> str:
    """Return what to do if a distance did not fall."""
    if not before:
        return "give examples on which the tables matter"
    return "give more examples" if before > _CLOSE else "calibration gains nothing here, leave it out"


def _error_of(table: CompressedTable, found: Fidelity) -> float:
    """Return the relative error that values move by: behind the next layer, if only that layer reads the rows."""
    return found.relative_error if table.next_layer_error is None else table.next_layer_error


def _nearest_codes(
    tables: Mapping[str, StoredTable], arrays: Values, targets: Mapping[str, Target]
) -> dict[str, Tensor]:
    found = dict[str, Tensor]()
    for name, target in targets.items():
        if has_codes(tables[name]):
            found |= nearest_codes(tables[name], arrays, target.rows.float(), target.curvature)
    return found


class _Fit:
    """Steps that improve the values of a compressed model.

    Args:
        models: both models.
        arrays: values, float32, and codes that replace those of the model.
        errors: relative error of the rows by table.
    """

    def __init__(self, models: Models, arrays: Values, errors: Mapping[str, float]) -> None:
        self._models = models
        self.arrays = dict(arrays)
        names = {array: name for name, table in models.tables.items() for array, _ in table.values}
        self._rates = [
            min(_RATE, _RATE_BY_ERROR * errors.get(name, 1.0)) * float(arrays[array].square().mean().sqrt())
            for array, name in names.items()
        ]
        trained = [self.arrays[array].requires_grad_() for array in names]
        self._adam = torch.optim.Adam([{"params": [value]} for value in trained], betas=_BETAS)

    def step(self, example: Example, share: float) -> None:
        """Improve the values on one example, at a share of the full rate."""
        rows = self._models.rows(self.arrays)
        for dense in rows.values():
            dense.requires_grad_()
        self._models.add_gradients(example, rows)
        self._adam.zero_grad()
        for name, table in self._models.tables.items():
            gradient = rows[name].grad
            if gradient is not None:
                table.add_gradients(self.arrays, gradient)
        for group, rate in zip(self._adam.param_groups, self._rates, strict=True):
            group["lr"] = share * rate
        self._adam.step()


def _share(done: int, steps: int) -> float:
    """Return the share of the full rate in a step."""
    return min(1.0, (done + 1) / _WARM) * (1 - done / steps)


def _order(examples: Sequence[Example], steps: int, seed: int) -> Iterator[Example]:
    """Yield so many examples, in a random order, again and again."""
    random = torch.Generator().manual_seed(seed)
    passes = (torch.randperm(len(examples), generator=random).tolist() for _ in count())
    return (examples[at] for at in islice(chain.from_iterable(passes), steps))
