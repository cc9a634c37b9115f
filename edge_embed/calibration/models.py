"""The dense and the compressed model on examples: distances, and the curvature by the rows of tables."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor

from edge_embed.calibration.curvature import Curvature
from edge_embed.calibration.distance import distance, probe
from edge_embed.calibration.examples import OPTION, Example, Examples
from edge_embed.calibration.stored_values import StoredTable, Values
from edge_embed.calibration.student import Student
from edge_embed.errors import BadInputError, EdgeEmbedError, one_line
from edge_embed.lowering.graph import Progress
from edge_embed.program.program import Program, ProgramModule

_MOST_CURVED = 600  # examples that the curvature is measured with
_STEP = "calibration: curvature"

Rows = Mapping[str, Tensor]  # float32 [n, d] by name of the table


@dataclass(frozen=True, eq=False)
class Models:
    """Both models and their examples.

    Attributes:
        teacher: the dense model.
        student: the compressed one.
        tables: its tables by name.
        examples: inputs of both.
    """

    teacher: Program
    student: ProgramModule
    tables: Mapping[str, StoredTable]
    examples: Examples

    @torch.no_grad()
    def rows(self, arrays: Values) -> dict[str, Tensor]:
        """Return all rows of each table, with these arrays in place of the stored ones."""
        return {name: table.rows(arrays) for name, table in self.tables.items()}

    @torch.no_grad()
    def measured(self, arrays: Values) -> float:
        """Return the mean distance over the examples that are held out."""
        rows, found = self.rows(arrays), list[float]()
        for example in self.examples.held_out:
            with self._named(example):
                found.append(float(self._distance(example, rows)))
        return sum(found) / len(found)

    def add_gradients(self, example: Example, rows: Rows) -> None:
        """Add the gradient of the distance of an example to that of the rows.

        Raises:
            BadInputError: a model fails, or the distance is not finite; the message names the file and the example.
        """
        with self._named(example):
            _backward(self._distance(example, rows))

    def curvatures(self, dense: Rows, seed: int, progress: Progress) -> dict[str, Curvature]:
        """Return the curvature of the distance by dense rows, by name of their table.

        Args:
            dense: rows of the dense model, of any type float.
            seed: random seed.
            progress: called with (step, done, total).
        """
        trained = {name: table.detach().float().clone().requires_grad_() for name, table in dense.items()}
        found = {name: Curvature(*table.shape) for name, table in dense.items()}
        others = {name: table.rows({}) for name, table in self.tables.items() if name not in dense}
        rows, random = others | trained, torch.Generator().manual_seed(seed)
        some = self.examples.fitted[:_MOST_CURVED]
        for done, example in enumerate(some):
            progress(_STEP, done, len(some))
            with self._named(example):
                outputs = self._outputs(example, rows)
                if any(output.isnan().any() for output in outputs):
                    raise BadInputError("got outputs with NaN, expected finite ones: leave out such examples")
                _backward(probe(outputs, self.examples.logits_at, random))
            for name, table in trained.items():
                if table.grad is not None:
                    found[name].add(table.grad)
                    table.grad = None
        progress(_STEP, len(some), len(some))
        return found

    def _distance(self, example: Example, rows: Rows) -> Tensor:
        expected = self.teacher.run(*example.inputs)
        found = distance(expected, self._outputs(example, rows), self.examples.logits_at)
        if not found.isfinite():
            got = f"outputs at a distance of {float(found.detach())}"
            raise BadInputError(f"got {got}, expected finite ones: leave out such examples")
        return found

    def _outputs(self, example: Example, rows: Rows) -> tuple[Tensor, ...]:
        stored = {name: rows[name].to(table.dtype) for name, table in self.tables.items()}
        outputs: tuple[Tensor, ...] = Student(self.student, stored).run(*example.inputs)
        return outputs

    @contextmanager
    def _named(self, example: Example) -> Iterator[None]:
        """Name the file and the example in errors of the models."""
        try:
            yield
        except Exception as error:  # any exception of the model's operators
            reason = str(error) if isinstance(error, EdgeEmbedError) else f"the model fails: {one_line(error)}"
            raise BadInputError(f"{OPTION}: {self.examples.file}: {example.name}: {reason}") from error


def _backward(found: Tensor) -> None:
    if not found.requires_grad:
        raise BadInputError("got outputs that do not depend on its tables, expected others: leave it out")
    found.backward()
