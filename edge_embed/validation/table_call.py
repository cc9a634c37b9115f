"""One use of a table in the model, as validation runs it: inputs, expected results, inputs to refuse."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from onnx import NodeProto
from torch import fx

from edge_embed.ops.operators import LEADING
from edge_embed.packed.packed_form import Use
from edge_embed.program.program import Program
from edge_embed.validation.ids import Distribution
from edge_embed.validation.tables import Table

Feeds = Mapping[str, NDArray[Any]]
Results = tuple[NDArray[Any], ...]

# Largest allowed distance of a path from the exact sum, in ULP of the sum of its terms' absolute values: 4 for sums of
# up to 32 terms. A running float32 sum of K terms of one sign is off by at most K / 2. Plain products of 50 to 256 such
# terms reached 4 to 8 in measurements (random signs: below 1), so for longer sums the limit grows with their length.
# One wrong code, weight or core is far above the limit.
_ULPS = 4
_TERMS = 32
# The training form compares every id with every code: with 65,536 codes in 64 groups that takes 32 MB and half
# a second per id. Such tables get fewer ids, in small blocks.
_COMPARISONS_AT_ONCE = 1 << 22
IDS_AT_ONCE = 4096


@dataclass(frozen=True)
class Case:
    """Inputs of the operator before its table, by name, with a description."""

    name: str
    feeds: Feeds


@dataclass(frozen=True)
class Expected:
    """Expected results, computed by the packed form.

    Attributes:
        values: float64, or in the type of the table if paths must agree bit by bit.
        magnitudes: float64: the sum of the absolute values of each element's terms; None for bit by bit.
        terms: number of terms of the longest sum.
        rounded: the type that a path may round to in between, if it is coarser than the result.
    """

    values: NDArray[Any]
    magnitudes: NDArray[np.float64] | None = None
    terms: int = 1
    rounded: np.dtype[Any] | None = None

    def differences(self, got: NDArray[Any]) -> NDArray[np.int64]:
        """Return flat indices of the elements of ``got`` that differ from the expected ones."""
        if self.magnitudes is None:
            return np.flatnonzero(_bits(got) != _bits(self.values))
        with np.errstate(invalid="ignore"):
            close = np.abs(got.astype(np.float64) - self.values) <= self.margins(got.dtype)
        return np.flatnonzero(~close)

    def margins(self, kind: np.dtype[Any]) -> NDArray[np.float64]:
        """Return the allowed error of each value, for results of type ``kind``."""
        if self.magnitudes is None:
            return np.zeros(self.values.shape)
        eps = max(float(np.finfo(dtype).eps) for dtype in (kind, self.rounded or kind))
        ulps = _ULPS * max(1.0, self.terms / _TERMS)
        margins: NDArray[np.float64] = ulps * eps * self.magnitudes + float(np.finfo(kind).smallest_subnormal)
        return margins


@dataclass(frozen=True)
class TableCall(ABC):
    """One use of one table.

    Attributes:
        table: the packed table.
        training: the call in the program's own graph.
        lowered: the call over packed tensors that replaced it.
    """

    table: Table
    training: fx.Node
    lowered: fx.Node

    use: ClassVar[Use]
    inputs: ClassVar[tuple[str, ...]]

    @property
    def name(self) -> str:
        """Return the name of the use, for the report."""
        return self.use

    @property
    def leading(self) -> tuple[Any, ...]:
        """Return the arguments before the table in the lowered graph."""
        return tuple(self.lowered.args[: len(LEADING[self.use])])

    @property
    def attributes(self) -> dict[str, int]:
        """Return the expected attributes of its node."""
        return self.table.onnx.operator(self.use).attributes(*self.leading, *self.table.arguments)

    @property
    def op_type(self) -> str:
        """Return the expected operator of its node."""
        return self.table.onnx.operator(self.use).op_type

    def outputs(self, first: np.dtype[Any]) -> dict[str, np.dtype[Any]]:
        """Return the types of all results, by name, if the first input has type ``first``."""
        return {"result": self.result_type(first)}

    @property
    @abstractmethod
    def signatures(self) -> dict[np.dtype[Any], dict[str, Any]]:
        """Return numpy types of all inputs, by the type of the first."""

    @abstractmethod
    def cases(self, random: np.random.Generator) -> list[Case]:
        """Return the cases that every path must compute."""

    def wrong_ids(self) -> list[Case]:
        """Return cases with two results of which the second has an id outside the table."""
        return []

    @abstractmethod
    def refused(self) -> list[Case]:
        """Return the cases that every path must refuse."""

    @abstractmethod
    def expected(self, case: Case) -> Expected:
        """Return the results of the packed form."""

    @abstractmethod
    def arguments(self, feeds: Feeds) -> tuple[Any, ...]:
        """Return the arguments before the table in a call of the torch operator."""

    @abstractmethod
    def place(self, case: Case, shape: tuple[int, ...], index: int) -> str:
        """Return the place of element ``index`` of a result, in words."""

    # Items of a timed call -> calls per sample: one small call is too short for the resolution of the clock.
    batches: ClassVar[Mapping[int, int]] = {1: 32, 4096: 1}
    distributions: ClassVar[tuple[Distribution, ...]] = ("uniform", "zipf")
    # Name of the same computation with a dense table.
    dense: ClassVar[str]

    @abstractmethod
    def dense_nodes(self) -> list[NodeProto]:
        """Return nodes of standard operators from the same inputs and float32 ``table`` [n, d] to ``result``."""

    @abstractmethod
    def all_rows(self, random: np.random.Generator) -> Iterator[Feeds]:
        """Yield inputs that together read every row of the table."""

    @abstractmethod
    def timed(self, random: np.random.Generator, distribution: Distribution, batch: int) -> Feeds:
        """Draw inputs of ``batch`` items, for latency."""

    def feeds(self, arguments: Sequence[Any]) -> Feeds:
        """Convert arguments of the torch operator to inputs of the node; None becomes an empty array."""
        given = zip(self.inputs, arguments, strict=False)
        return {name: np.zeros(0) if value is None else value.numpy() for name, value in given}

    def oracle(self, feeds: Feeds) -> Results:
        """Return the results of the packed form, in the type of the result."""
        values = self.expected(Case("", feeds)).values
        return (values.astype(self.result_type(feeds[self.inputs[0]].dtype)),)

    def difference(self, case: Case, got: Results, expected: Expected) -> str:
        """Return the first wrong value of a path in words, or an empty string."""
        (result,) = got
        kind = expected.values.dtype if expected.magnitudes is None else result.dtype
        if problem := unlike(result, expected.values.shape, kind):
            return problem
        differ = expected.differences(result)
        if not differ.size:
            return ""
        at = int(differ[0])
        values = f"got {result.reshape(-1)[at]}, expected {expected.values.reshape(-1)[at]}"
        return f"{self.place(case, result.shape, at)}: {values}"

    def run_training(self, program: Program, feeds: Feeds) -> Results:
        """Run the training form on the program's own weights."""
        table: Any = fx.node.map_arg(
            self.training.args[len(LEADING[self.use]) :], lambda weight: program.module.weight(str(weight.target))
        )
        with torch.no_grad():
            found: Any = self.training.target(*self.arguments(feeds), *table)  # type: ignore[operator]
        return tuple(result.numpy() for result in (found if isinstance(found, tuple) else (found,)))

    def result_type(self, first: np.dtype[Any]) -> np.dtype[Any]:
        """Return the type of the result if the first input has type ``first``."""
        return self.table.row_type

    @property
    def row_terms(self) -> int:
        """Return the number of terms of the longest sum in a row of the table."""
        return self.table.method.terms(self.table.packed)

    @property
    def ids_at_once(self) -> int:
        """Return the number of rows that the training form may compute in one call."""
        return max(1, _COMPARISONS_AT_ONCE // self.table.method.comparisons(self.table.packed))


def unlike(got: NDArray[Any], shape: tuple[int, ...], kind: np.dtype[Any]) -> str:
    """Return the error of type or shape of a result in words, or an empty string."""
    if got.shape == shape and got.dtype == kind:
        return ""
    return f"got {got.dtype} {list(got.shape)}, expected {kind} {list(shape)}"


def _bits(rows: NDArray[Any]) -> NDArray[Any]:
    """View rows as integers of their bits, so that -0.0 differs from 0.0."""
    return np.ascontiguousarray(rows).view(f"u{rows.itemsize}").reshape(-1)
