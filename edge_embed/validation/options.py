"""Options of a validation."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from edge_embed.errors import BadInputError, suggested
from edge_embed.files import checked_path
from edge_embed.keywords import suggests_keywords

# Tables are compared bit by bit. The tolerance is for the rest of the model, which computes in float32 in another
# order of summation. A dot product of 1,000 to 10,000 terms is then off by 1e-6 to 1e-5 of its terms. A few layers or
# recurrent steps increase this up to ten times: 1e-4 relative, 1e-5 absolute where terms cancel. A wrong code or a
# relevant flipped bit of a weight changes an output by 1e-3 to 1, far above the tolerance.
DEFAULT_ATOL = 1e-5
DEFAULT_RTOL = 1e-4
# With float16 in any weight, paths round to 11 bits at different places: 5e-4 of a term, a few times.
HALF_ATOL = 1e-3
HALF_RTOL = 1e-2


@dataclass(frozen=True)
class Tolerance:
    """A tolerance for all outputs, with exceptions by output; None selects it by the type of the weights."""

    default: float | None = None
    by_output: Mapping[str, float] = field(default_factory=dict)

    def of(self, output: str) -> float:
        """Return the tolerance of one output, after `ValidationOptions.for_weights`."""
        assert self.default is not None
        return self.by_output.get(output, self.default)

    def or_else(self, default: float, by_output: Mapping[str, float] = MappingProxyType({})) -> Self:
        """Return a tolerance whose missing values are filled with ``default`` and ``by_output``."""
        if self.default is not None:
            return self
        return replace(self, default=default, by_output={**by_output, **self.by_output})

    @classmethod
    def of_numbers(cls, value: "float | Mapping[str, float] | Tolerance") -> "Tolerance":
        """Convert a number for all outputs, or numbers by output name.

        Raises:
            BadInputError: a value is no finite number of at least 0.
        """
        if isinstance(value, Tolerance):
            return value
        by_output = value if isinstance(value, Mapping) else {}
        return cls.parse([f"{name}:{x}" for name, x in by_output.items()] or [str(value)])

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """Parse ``[output:]x`` of the command line; the last one counts.

        Raises:
            BadInputError: ``x`` is no finite number of at least 0.
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
    """Options of a validation.

    Attributes:
        atol: absolute tolerance of the model's outputs: a number, or numbers by output name.
        rtol: relative tolerance of the model's outputs, in the same form.
        seed: random seed of ids, inputs and the order of measurements.
        iterations: measured rounds per latency figure; 0 measures none.
        warmup: rounds before the measured ones.
        more_cases: number of inputs of random sizes for the whole model beyond the usual ones.
        inputs: file of inputs for the whole model, in place of random ones.
        save_inputs: file that the inputs of the whole model are written to.
        save_worst: file for the inputs on which an output deviated most, on any path or target.
        force: overwrite existing files.
        targets: additional targets that run the model, as on the command line: ``local``, ``arm64:cortex-a53``.
        time_limit: time limit of each step in seconds. A step creates a session, runs a model or a table on given
            inputs, or runs a target in another process. The command line ends every step at the limit; Python ends
            only other processes and calls of ONNX Runtime whose outputs are compared.
        tokenizer: the tokenizer file of the exported file, to compare ids with.
        changed_after_export: whether a tool changed the file on purpose, so that differences from an export are
            reported and do not fail. Files with the mark of a known tool do not need this option.
        texts: text that a compressed decoder and its original predict token by token, with the ``tokenizer.json`` in
            the folder of the compressed file, or with ``tokenizer``.
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
    texts: Path | None = None

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
        """Create options from the command line: tolerances as ``[output:]x``, others unchanged.

        Raises:
            BadInputError: a value is invalid.
        """
        return cls(Tolerance.parse(atol), Tolerance.parse(rtol), **others)

    def given(self, **values: Any) -> Self:
        """Return options in which values other than None replace the old ones; values have the types of the Python API.

        Raises:
            BadInputError: a value is invalid.
        """
        return replace(self, **{name: value for name, value in values.items() if value is not None})

    def for_weights(self, half: bool, half_scales: Mapping[str, float] = MappingProxyType({})) -> Self:
        """Return options whose missing tolerances are filled according to the types of weights and outputs.

        Args:
            half: whether some weights are float16.
            half_scales: scales of outputs that depend on a float16 computation, whatever the type of the weights.
        """
        atol, rtol = (HALF_ATOL, HALF_RTOL) if half else (DEFAULT_ATOL, DEFAULT_RTOL)
        half_atol = {name: HALF_ATOL * scale for name, scale in half_scales.items()}
        return replace(
            self,
            atol=self.atol.or_else(atol, half_atol),
            rtol=self.rtol.or_else(rtol, dict.fromkeys(half_scales, HALF_RTOL)),
        )

    def check_outputs(self, names: Iterable[str]) -> None:
        """Refuse a tolerance for an output that the model lacks.

        Raises:
            BadInputError: the model lacks the output; the message names the existing outputs.
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


# Converters from the values that Python accepts to those of the fields.
_READ: dict[str, Callable[[str, Any], Any]] = {
    "atol": _tolerance,
    "rtol": _tolerance,
    "targets": _names,
    "inputs": checked_path,
    "save_inputs": checked_path,
    "save_worst": checked_path,
    "tokenizer": checked_path,
    "texts": checked_path,
}
