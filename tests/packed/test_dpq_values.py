"""Int8 values of DPQ: rounding, represented numbers, and every refusal."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed import PackedDPQ
from edge_embed.packed.dpq_values import check_values, quantized, scaled

LARGEST, TINY = float(np.finfo(np.float32).max), float(np.finfo(np.float32).smallest_subnormal)
floats = st.one_of(st.floats(-4, 4, width=32), st.floats(allow_nan=False, allow_infinity=False, width=32))
books = arrays.arrays(np.float32, st.tuples(st.integers(1, 3), st.integers(2, 5), st.integers(1, 4)), elements=floats)


@given(books)
def test_values_are_within_half_a_step(values: NDArray[np.float32]) -> None:
    """The step is relative to the largest value of the same value table; that value itself is exact."""
    stored, scales = quantized(values)
    check_values(stored, scales)  # also for the largest and the smallest float32 numbers
    again = scaled(stored, scales[:, np.newaxis]).astype(np.float64)  # [G, K, s]
    step = np.maximum(np.abs(values.astype(np.float64)).max(axis=(1, 2)) / 127, TINY)
    assert (np.abs(again - values) <= (0.5001 * step)[:, np.newaxis, np.newaxis] + 64 * TINY).all()
    assert not (np.signbit(again) & (again == 0)).any()  # a zero is +0.0


def test_values_round_half_to_even() -> None:
    values = np.array([[[127, -127], [0.5, 1.5], [2.5, -0.5], [-1.5, 0]]], np.float32)
    stored, scales = quantized(values)
    assert scales.tolist() == [1.0]
    assert stored.tolist() == [[[127, -127], [0, 2], [2, 0], [-2, 0]]]


def test_value_tables_have_scales_of_their_own() -> None:
    values = np.array([[[254.0], [2]], [[-1.27], [0.01]], [[0], [-0.0]]], np.float32)
    stored, scales = quantized(values)
    assert scales.tolist() == [2, np.float32(np.float32(1.27) / 127), 1]  # 1 where all are zero
    assert stored.tolist() == [[[127], [1]], [[-127], [1]], [[0], [0]]]


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_are_refused(dtype: Any, bad: float) -> None:
    values = np.zeros((2, 3, 2), dtype)
    values[1, 2, 0] = bad
    with pytest.raises(BadInputError, match="values: group 1, code 2, column 0: got"):
        quantized(values)


CODES, VALUES, SCALES = np.zeros((4, 2), np.uint8), np.ones((3, 5, 2), np.int8), np.ones(3, np.float32)


def with_scale(number: float) -> NDArray[np.float32]:
    return np.array([1, number, 1], np.float32)


@pytest.mark.parametrize(
    ("values", "scales", "message"),
    [
        (VALUES, None, r"tensors: got \['codes', 'values'\] with int8 values, expected \['codes', 'values', 'value_s"),
        (VALUES.astype(np.float32), SCALES, r"'value_scales'\] with float32 values, expected \['codes', 'values'\]"),
        (VALUES, SCALES[:1], r"value_scales: got float32 \[1\], expected float32 \[3\]"),
        (VALUES[:1], SCALES, r"value_scales: got float32 \[3\], expected float32 \[1\]"),
        (VALUES, SCALES[:, np.newaxis], r"value_scales: got float32 \[3, 1\]"),
        (VALUES, SCALES.astype(np.float16), "value_scales: got float16"),
        (VALUES, SCALES.astype(">f4"), "value_scales: got >f4"),
        (VALUES.view(np.uint8), SCALES, "values: got uint8 .*, expected float32 or float16 or int8"),
        (np.where(np.arange(2) == 1, np.int8(-128), VALUES), SCALES, "values: group 0, code 0, column 1: got -128"),
        (VALUES, with_scale(np.nan), "value_scales: group 1: got nan, expected a positive number"),
        (VALUES, with_scale(np.inf), "value_scales: group 1: got inf"),
        (VALUES, with_scale(0), "value_scales: group 1: got 0.0"),
        (VALUES, with_scale(-0.5), "value_scales: group 1: got -0.5"),
        (VALUES, with_scale(LARGEST / 100), "value_scales: group 1: got 3.4.*e.36, expected .* finite times 127"),
    ],
)
def test_invalid_tables_are_refused(values: Any, scales: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        PackedDPQ(CODES, values, 3, None, scales)


def test_tensors_that_are_no_table_are_refused() -> None:
    attributes = PackedDPQ(CODES, VALUES, 3, None, SCALES).attributes()
    tensors = {"codes": CODES, "values": VALUES, "value_scales": SCALES}
    assert PackedDPQ.from_tensors(tensors, attributes).value_type == "int8"
    for missing in ("codes", "values", "value_scales"):
        with pytest.raises(BadInputError, match="tensors: got"):
            PackedDPQ.from_tensors({name: tensors[name] for name in tensors if name != missing}, attributes)
    with pytest.raises(BadInputError, match="tensors: got"):
        PackedDPQ.from_tensors({**tensors, "more": SCALES}, attributes)
