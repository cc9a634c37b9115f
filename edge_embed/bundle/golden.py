"""Golden pair of a bundle: inputs of its model, and the outputs that the training form has for them.

    |y - g| <= atol + rtol |g|    for floats y of the app and g of the golden pair; other values are equal

The file is JSON that every platform reads with its own library. Values are flat, in row-major order, and numbers that
JSON lacks are the strings "NaN", "Infinity" and "-Infinity". An output of more than 4,096 values has ``positions``: the
flat positions of the values that the file holds, spread over the whole output.
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.bundle.json_file import read_json, typed
from edge_embed.errors import BadInputError, located
from edge_embed.text_arrays import as_texts, holds_texts

_DTYPES = "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool string".split()
_MOST_VALUES = 4096  # of an output; a JSON number takes about ten bytes
_MOST_SIZE = 1 << 31
_MOST_DIMENSIONS = 32
_MOST_TOLERANCE = 1e30
_SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


@dataclass(frozen=True)
class GoldenTensor:
    """An input or output.

    Attributes:
        name: name in the model.
        dtype: name in numpy, or ``string``.
        shape: sizes of all dimensions.
        values: the values, flat [count]; texts are objects.
        positions: flat position of each value, int64 [count], for outputs that are not stored whole.
        atol: absolute tolerance; 0 for inputs and for values that are equal.
        rtol: relative tolerance; 0 as above.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    values: NDArray[Any]
    positions: NDArray[np.int64] | None = None
    atol: float = 0.0
    rtol: float = 0.0

    @classmethod
    def of_input(cls, name: str, value: NDArray[Any]) -> "GoldenTensor":
        """Return an input, whole."""
        texts = as_texts(value)
        return cls(name, _dtype_of(texts), texts.shape, texts.reshape(-1))

    @classmethod
    def of_output(
        cls, name: str, value: NDArray[Any], atol: float, rtol: float, usable: NDArray[np.bool_] | None = None
    ) -> "GoldenTensor":
        """Return an output, at some of its positions if it is large.

        Args:
            name: name in the model.
            value: the output [*shape].
            atol: absolute tolerance of floats.
            rtol: relative tolerance of floats.
            usable: positions that runtimes must agree on, bool [*shape]; all by default.
        """
        value = as_texts(value)
        exact = value.dtype.kind != "f"
        places = np.arange(value.size) if usable is None else np.flatnonzero(usable)  # [usable]
        if len(places) > _MOST_VALUES:
            places = places[np.linspace(0, len(places) - 1, _MOST_VALUES).astype(np.int64)]
        whole = len(places) == value.size
        return cls(
            name,
            _dtype_of(value),
            value.shape,
            value.reshape(-1)[places],
            None if whole else places.astype(np.int64),
            0.0 if exact else atol,
            0.0 if exact else rtol,
        )

    @classmethod
    def from_json(cls, content: Any) -> "GoldenTensor":
        """Read a tensor.

        Raises:
            BadInputError: a key is missing or holds another type, or sizes do not fit.
        """
        name = typed(content, "name", str)
        with located(name[:80]):
            dtype, shape = typed(content, "dtype", str), tuple(typed(content, "shape", list))
            if dtype not in _DTYPES:
                raise BadInputError(f"dtype: got {dtype!r:.80}, expected one of {', '.join(_DTYPES)}")
            if len(shape) > _MOST_DIMENSIONS or any(type(size) is not int or size < 0 for size in shape):
                raise BadInputError(f"shape: got {list(shape)!r:.80}, expected sizes")
            count = math.prod(shape)
            if count > _MOST_SIZE:
                raise BadInputError(f"shape: got {list(shape)}, expected at most {_MOST_SIZE:,} values")
            values = _parsed("values", typed(content, "values", list), dtype)
            positions = None
            if "positions" in content:
                positions = _parsed("positions", typed(content, "positions", list), "int64")
                if ((positions < 0) | (positions >= count)).any():
                    raise BadInputError(f"positions: expected 0 <= position < {count:,}")
            expected = count if positions is None else len(positions)
            if len(values) != expected:
                raise BadInputError(f"values: got {len(values):,}, expected {expected:,}")
            atol, rtol = (_tolerance(key, typed(content, key, (int, float), 0.0)) for key in ("atol", "rtol"))
            return cls(name, dtype, shape, values, positions, atol, rtol)

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        content: dict[str, Any] = {"name": self.name, "dtype": self.dtype, "shape": list(self.shape)}
        if self.positions is not None:
            content["positions"] = self.positions.tolist()
        content["values"] = [_spelled(value) for value in self.values]
        return content | ({"atol": self.atol, "rtol": self.rtol} if self.atol or self.rtol else {})

    @property
    def array(self) -> NDArray[Any]:
        """Return an input as runtimes accept it."""
        return self.values.reshape(self.shape)

    def difference(self, got: NDArray[Any]) -> str:
        """Return how an output differs from this one; empty if it does not."""
        got = as_texts(got)
        if (_dtype_of(got), got.shape) != (self.dtype, self.shape):
            return f"got {_dtype_of(got)} {list(got.shape)}, expected {self.dtype} {list(self.shape)}"
        found = got.reshape(-1) if self.positions is None else got.reshape(-1)[self.positions]  # [count]
        wrong = np.flatnonzero(~self._alike(found))
        if not len(wrong):
            return ""
        first = int(wrong[0])
        position = first if self.positions is None else int(self.positions[first])
        expected = f"expected {_spelled(self.values[first])!r:.40}"
        allowed = f" (atol {self.atol:g}, rtol {self.rtol:g})" if self.atol or self.rtol else ""
        return (
            f"{len(wrong):,} of {len(found):,} values differ, at position {position:,}: "
            f"got {_spelled(found[first])!r:.40}, {expected}{allowed}"
        )

    def largest_error(self, got: NDArray[Any]) -> float:
        """Return the largest absolute error of a float output of the same shape."""
        found = got.reshape(-1) if self.positions is None else got.reshape(-1)[self.positions]
        wide, exact = found.astype(np.float64), self.values.astype(np.float64)
        with np.errstate(invalid="ignore"):
            error = np.where(wide == exact, 0.0, np.abs(wide - exact))
        return float(np.nanmax(error, initial=0.0))

    def _alike(self, found: NDArray[Any]) -> NDArray[np.bool_]:
        if found.dtype.kind != "f":
            equal: NDArray[np.bool_] = found == self.values
            return equal
        # In float64, because a difference of float32 near the largest numbers would overflow.
        wide, exact = found.astype(np.float64), self.values.astype(np.float64)
        with np.errstate(invalid="ignore"):
            near = np.abs(wide - exact) <= self.atol + self.rtol * np.abs(exact)
        alike: NDArray[np.bool_] = (wide == exact) | (near & np.isfinite(exact)) | (np.isnan(wide) & np.isnan(exact))
        return alike


@dataclass(frozen=True)
class GoldenPair:
    """Inputs and outputs of one run."""

    inputs: tuple[GoldenTensor, ...]
    outputs: tuple[GoldenTensor, ...]

    @classmethod
    def read(cls, path: Path) -> "GoldenPair":
        """Read the file of a golden pair.

        Raises:
            BadInputError: it is missing, damaged or no golden pair, or compares nothing.
        """
        with located(str(path)):
            content = read_json(path, "a golden pair")
            inputs, outputs = (tuple(map(GoldenTensor.from_json, typed(content, key, list))) for key in _SIDES)
            for key, tensors in zip(_SIDES, (inputs, outputs), strict=True):
                names = [tensor.name for tensor in tensors]
                if len(set(names)) < len(names):
                    raise BadInputError(f"{key}: got {', '.join(names)!r:.80}, expected each name once")
            if any(tensor.positions is not None for tensor in inputs):
                raise BadInputError("inputs: got positions, expected all values")
            if not outputs:
                raise BadInputError("outputs: got none, expected at least one")
            if any(math.prod(tensor.shape) for tensor in outputs) and not any(len(tensor.values) for tensor in outputs):
                raise BadInputError("outputs: got no values, expected some to compare")
        return cls(inputs, outputs)

    def write(self, path: Path) -> None:
        """Write the file."""
        sides = zip(_SIDES, (self.inputs, self.outputs), strict=True)
        content = {key: [tensor.to_json() for tensor in tensors] for key, tensors in sides}
        path.write_text(json.dumps(content, allow_nan=False) + "\n", encoding="utf-8")

    def feeds(self) -> dict[str, NDArray[Any]]:
        """Return the inputs by name."""
        return {tensor.name: tensor.array for tensor in self.inputs}

    def differences(self, got: Sequence[NDArray[Any]]) -> list[str]:
        """Return how outputs differ, one text for each that does; an empty list if none does.

        Args:
            got: outputs in the order of the pair.
        """
        if len(got) != len(self.outputs):
            return [f"got {len(got)} outputs, expected {len(self.outputs)}"]
        found = ((tensor.name, tensor.difference(value)) for tensor, value in zip(self.outputs, got, strict=True))
        return [f"output {name}: {difference}" for name, difference in found if difference]


_SIDES = ("inputs", "outputs")


def _dtype_of(value: NDArray[Any]) -> str:
    return "string" if holds_texts(value) else value.dtype.name


def _spelled(value: Any) -> Any:
    """Return a value as JSON holds it; a float has the fewest digits that its own type needs."""
    if isinstance(value, np.floating | float):
        if np.isfinite(value):
            return float(str(value))
        return "NaN" if np.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return value.item() if isinstance(value, np.generic) else value


def _tolerance(key: str, value: int | float) -> float:
    if not 0 <= value < _MOST_TOLERANCE:
        raise BadInputError(f"{key}: got {value!r:.40}, expected 0 <= {key} < {_MOST_TOLERANCE:g}")
    return float(value)


def _parsed(key: str, values: list[Any], dtype: str) -> NDArray[Any]:
    """Return values [count] of a type.

    Raises:
        BadInputError: a value has another type.
    """
    if dtype == "string":
        expected: tuple[type, ...] = (str,)
    elif dtype.startswith("float"):
        expected = (int, float)
        values = [_SPECIAL.get(value, value) if isinstance(value, str) else value for value in values]
    else:
        expected = (bool,) if dtype == "bool" else (int,)
    wrong = [value for value in values if type(value) not in expected]
    if wrong:
        raise BadInputError(f"{key}: got {wrong[0]!r:.40}, expected {dtype}")
    made = np.empty(len(values), dtype=object if dtype == "string" else dtype)
    try:
        with np.errstate(over="ignore"):
            made[:] = values
    except (OverflowError, ValueError) as error:
        raise BadInputError(f"{key}: got a number outside of {dtype}: {error}") from error
    return made
