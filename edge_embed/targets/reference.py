"""Target ``reference``: the reference evaluator of the onnx package, plain numpy, and therefore no test of speed."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun

from edge_embed.errors import one_line
from edge_embed.report.results.targets import Evidence, Problem
from edge_embed.steps import step
from edge_embed.targets.target import Feeds, NotRunError, RunOptions, Subject, TargetRun, Tokenizer


class Gather(OpRun):
    """Gather that keeps the shape without indices; the evaluator's own operator loses it (onnx 1.22)."""

    def _run(self, data: Any, indices: Any, axis: int) -> tuple[Any]:
        return (np.asarray(np.take(data, indices, axis)),)


class GatherElements(OpRun):
    """GatherElements for more than 64 entries; the evaluator's own fails on them (onnx 1.23: ``np.choose``)."""

    def _run(self, data: Any, indices: Any, axis: int) -> tuple[Any]:
        return (np.take_along_axis(data, indices, axis),)


class Evaluator(ReferenceEvaluator):
    """Evaluator with our operators in functions too; the base class gives them only to the graph."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options | {"new_ops": [Gather, GatherElements]})

    def run(self, *arguments: Any, **options: Any) -> Any:
        """Run the model without warnings of numpy: infinities and NaN are results as in any runtime."""
        with np.errstate(all="ignore"):
            return super().run(*arguments, **options)


def open_reference(model: Path | onnx.ModelProto) -> ReferenceEvaluator:
    """Return the reference evaluator of the onnx package; it holds all weights in memory.

    Raises:
        NotRunError: if it lacks an operator of the model.
    """
    try:
        return Evaluator(str(model) if isinstance(model, Path) else model)
    except NotImplementedError as error:
        raise NotRunError(one_line(error)) from error


@dataclass(frozen=True)
class ReferenceModel:
    """A model in the evaluator."""

    evaluator: ReferenceEvaluator
    output_names: Sequence[str]

    def run(self, cases: Sequence[Feeds], options: RunOptions) -> TargetRun:
        """Run all cases; nothing is timed."""
        try:
            outputs = [self._call(feeds) for feeds in cases]
        except Exception as error:
            # The evaluator's operators are incomplete in many ways. The checks of the tables show whether our body runs
            # on it.
            raise NotRunError(f"it cannot run this model: {one_line(error)}") from error
        return TargetRun(outputs, {"onnx": onnx.__version__})

    def _call(self, feeds: Feeds) -> list[NDArray[Any]]:
        with step("the reference evaluator runs"):
            return list(map(np.asarray, self.evaluator.run(list(self.output_names), dict(feeds))))


def open_model(path: Path, output_names: Sequence[str]) -> ReferenceModel:
    """Return a file in the evaluator.

    Raises:
        NotRunError: if the evaluator lacks an operator of the model.
    """
    return ReferenceModel(open_reference(path), output_names)


@dataclass(frozen=True)
class Reference:
    """The reference evaluator."""

    name: str = "reference"
    evidence: Evidence = "executed-native"
    tokenizer: Tokenizer = "cannot run"

    def lacks(self) -> list[Problem]:
        """Return no problem: onnx is always installed."""
        return []

    @contextmanager
    def prepare(self, subject: Subject, options: RunOptions) -> Iterator[ReferenceModel]:
        """Read the file."""
        yield open_model(subject.model, subject.program.output_names)
