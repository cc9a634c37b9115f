"""What the user may choose about a validation."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from edge_embed.errors import BadInputError, suggested
from edge_embed.files import checked_path
from edge_embed.keywords import suggests_keywords

# Tables are compared bit by bit; tolerance is for the rest of the model, which computes in float32 with another
# order of summation. A dot product of 1,000 to 10,000 terms is then off by 1e-6 to 1e-5 of its terms, and a few
# layers or recurrent steps add up to ten times that: 1e-4 relative, 1e-5 absolute where terms cancel. One wrong
# code or a flipped weight of any consequence moves an output by 1e-3 to 1 and stands out.
DEFAULT_ATOL = 1e-5
DEFAULT_RTOL = 1e-4
# With float16 anywhere in the weights paths round to 11 bits at different places: 5e-4 of a term, a few times over.
HALF_ATOL = 1e-3
HALF_RTOL = 1e-2


@dataclass(frozen=True)
class Tolerance:
    """A tolerance for all outputs, and others for some; None leaves it to the type of the weights."""

    default: float | None = None
    by_output: Mapping[str, float] = field(default_factory=dict)

    def of(self, output: str) -> float:
        """The tolerance of one output, after `ValidationOptions.for_weights`."""
        assert self.default is not None
        return self.by_output.get(output, self.default)

    def or_else(self, default: float, by_output: Mapping[str, float] = MappingProxyType({})) -> Self:
        """With ``default`` where there is none yet, or with that of an output which has one of its own."""
        if self.default is not None:
            return self
        return replace(self, default=default, by_output={**by_output, **self.by_output})

    @classmethod
    def of_numbers(cls, value: "float | Mapping[str, float] | Tolerance") -> "Tolerance":
        """A number for all outputs, or numbers by their names.

        Raises:
            BadInputError: if one is no finite number of at least 0.
        """
        if isinstance(value, Tolerance):
            return value
        by_output = value if isinstance(value, Mapping) else {}
        return cls.parse([f"{name}:{x}" for name, x in by_output.items()] or [str(value)])

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """Read ``[output:]x``, as it is given on the command line; the last one wins.

        Raises:
            BadInputError: if ``x`` is no finite number of at least 0.
        """
        by_output: dict[str, float] = {}
        default = None
        for text in texts:
            output, colon, number = text.rpartition(":")
            try:
                value = float(number)
            except ValueError:
                value = math.nan
            if not 0 <= value < math.inf or (colon and not output):
                raise BadInputError(f"tolerance: got {text!r}, expected a number such as 1e-5, or output:1e-5")
            if output:
                by_output[output] = value
            else:
                default = value
        return cls(default, by_output)


@suggests_keywords
@dataclass(frozen=True)
class ValidationOptions:
    """How to validate.

    Attributes:
        atol: absolute tolerance of the model's outputs: a number, or one for each by its name.
        rtol: relative tolerance of the model's outputs, alike.
        seed: of ids, inputs and the order of measurements.
        iterations: measured rounds per latency figure; 0 measures none.
        warmup: rounds before them.
        more_cases: inputs of random sizes for the whole model beyond the usual ones.
        inputs: file of inputs for the whole model, in place of random ones.
        save_inputs: file that the inputs of the whole model are written to.
        save_worst: file that the inputs are written to on which an output was farthest off, on any path or target.
        force: overwrite existing files.
        targets: where the model is to run besides, as on the command line: ``local``, ``arm64:cortex-a53``.
        time_limit: seconds that each step may take: a session that is made, a model or a table that is run on given
            inputs, whatever a target does in another process. The command line ends every step by it; Python only
            calls of ONNX Runtime whose outputs are compared, and other processes.
        tokenizer: the file of the tokenizer that the exported file has, to compare ids with.
        changed_after_export: whether a tool changed the file on purpose, so that what differs from an export is told
            and fails nothing. Files that bear the mark of a known tool need no such word.
    """

    atol: Tolerance = Tolerance()
    rtol: Tolerance = Tolerance()
    seed: int = 0
    iterations: int = 100
    warmup: int = 10
    more_cases: int = 0
    inputs: Path | None = None
    save_inputs: Path | None = None
    save_worst: Path | None = None
    force: bool = False
    targets: tuple[str, ...] = ()
    time_limit: float = 600.0
    tokenizer: Path | None = None
    changed_after_export: bool = False

    def __post_init__(self) -> None:
        for name, read in _READ.items():
            if (value := getattr(self, name)) is not None:
                object.__setattr__(self, name, read(name, value))
        for name in ("seed", "iterations", "warmup", "more_cases"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise BadInputError(f"{name}: got {value!r}, expected an integer of at least 0")
        limit = self.time_limit
        if not isinstance(limit, int | float) or isinstance(limit, bool) or not 0 < limit < math.inf:
            raise BadInputError(f"time_limit: got {self.time_limit!r}, expected a number of seconds above 0")

    @classmethod
    def parse(cls, atol: Iterable[str], rtol: Iterable[str], **others: Any) -> Self:
        """Options as they are given on the command line: tolerances as ``[output:]x``, others as they are.

        Raises:
            BadInputError: if one of them is impossible.
        """
        return cls(Tolerance.parse(atol), Tolerance.parse(rtol), **others)

    def given(self, **values: Any) -> Self:
        """With values as Python has them in the place of those that are not None: tolerances, paths and targets too.

        Raises:
            BadInputError: if one of them is impossible.
        """
        return replace(self, **{name: value for name, value in values.items() if value is not None})

    def for_weights(self, half: bool, half_outputs: Iterable[str] = ()) -> Self:
        """With the tolerances that were not given: those for weights of which some are float16, or none.

        Args:
            half: whether some are.
            half_outputs: outputs that are computed in float16 somewhere, whatever the weights are.
        """
        atol, rtol = (HALF_ATOL, HALF_RTOL) if half else (DEFAULT_ATOL, DEFAULT_RTOL)
        names = tuple(half_outputs)
        return replace(
            self,
            atol=self.atol.or_else(atol, dict.fromkeys(names, HALF_ATOL)),
            rtol=self.rtol.or_else(rtol, dict.fromkeys(names, HALF_RTOL)),
        )

    def check_outputs(self, names: Iterable[str]) -> None:
        """Refuse a tolerance for an output that the model has not.

        Raises:
            BadInputError: names the output and those there are.
        """
        known = list(names)
        for output in (*self.atol.by_output, *self.rtol.by_output):
            if output not in known:
                expected = f"{suggested(output, known)}expected one of the outputs {', '.join(known)}"
                raise BadInputError(f"tolerance for {output!r}: {expected}")


def _names(name: str, value: str | Iterable[str]) -> tuple[str, ...]:
    if not isinstance(value, Iterable):
        raise BadInputError(f"{name}: got {value!r:.80}, expected names such as ['portable']")
    return (value,) if isinstance(value, str) else tuple(value)


def _tolerance(_name: str, value: float | Mapping[str, float] | Tolerance) -> Tolerance:
    return Tolerance.of_numbers(value)


# What Python may give for an option, as the option holds it.
_READ: dict[str, Callable[[str, Any], Any]] = {
    "atol": _tolerance,
    "rtol": _tolerance,
    "targets": _names,
    "inputs": checked_path,
    "save_inputs": checked_path,
    "save_worst": checked_path,
    "tokenizer": checked_path,
}
