"""Golden pairs: what is written is read again, and exactly the outputs beyond the tolerance are found."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from edge_embed.bundle.golden import GoldenPair, GoldenTensor
from edge_embed.errors import BadInputError

DTYPES = [
    np.dtype(name) for name in "float16 float32 float64 int8 int16 int32 int64 uint8 uint16 uint32 uint64 bool".split()
]
VALUES = st.sampled_from(DTYPES).flatmap(
    lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5))
)


def read_again(pair: GoldenPair, folder: Path) -> GoldenPair:
    path = folder / "golden.json"
    pair.write(path)
    json.loads(path.read_text(encoding="ascii"), parse_constant=lambda name: pytest.fail(f"{name} is no JSON"))
    return GoldenPair.read(path)


def tensor(**changed: Any) -> dict[str, Any]:
    return {"name": "y", "dtype": "float32", "shape": [2], "values": [1.0, 2.0], "atol": 1e-5, "rtol": 0.0, **changed}


@given(VALUES)
def test_arrays_are_read_as_they_were_written(
    tmp_path_factory: pytest.TempPathFactory, value: np.ndarray[Any, Any]
) -> None:
    pair = GoldenPair((GoldenTensor.of_input("x", value),), (GoldenTensor.of_output("y", value, 0.0, 0.0),))
    found = read_again(pair, tmp_path_factory.mktemp("golden"))
    got = found.feeds()["x"]
    assert (got.dtype, got.shape) == (value.dtype, value.shape)
    np.testing.assert_array_equal(got, value)
    assert found.differences([value]) == []


def test_texts_are_read_as_they_were_written(tmp_path: Path) -> None:
    texts = np.array([["na\u00efve", ""], ["\u6771\u4eac \U0001f44d", 'a "b" \u2028 \\']], object)
    found = read_again(
        GoldenPair((GoldenTensor.of_input("text", texts),), (GoldenTensor.of_output("y", texts, 0.0, 0.0),)), tmp_path
    )
    assert found.feeds()["text"].tolist() == texts.tolist()
    assert found.feeds()["text"].dtype == object


@pytest.mark.parametrize("size", [4095, 4096, 4097, 50_000])
def test_large_outputs_are_compared_from_end_to_end(tmp_path: Path, size: int) -> None:
    value = np.random.default_rng(0).standard_normal((2, size // 2 + size % 2), np.float32)[:, : size // 2]
    pair = read_again(GoldenPair((), (GoldenTensor.of_output("y", value, 1e-6, 0.0),)), tmp_path)
    assert len(pair.outputs[0].values) == min(value.size, 4096)
    assert pair.differences([value]) == []
    for at in (0, -1):
        changed = value.copy()
        changed.reshape(-1)[at] += 1e-3
        assert "differ" in pair.differences([changed])[0]


@pytest.mark.parametrize(("error", "differs"), [(0.9e-3, False), (1.1e-3, True), (math.nan, True), (math.inf, True)])
def test_tolerance_is_absolute_plus_relative(error: float, differs: bool) -> None:
    golden = GoldenTensor.of_output("y", np.array([0.0, 2.0], np.float32), 5e-4, 2.5e-4)  # 1e-3 beside 2
    assert bool(golden.difference(np.array([0, 2 + error], np.float32))) == differs


@pytest.mark.parametrize("special", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_are_equal_to_themselves_only(tmp_path: Path, special: float) -> None:
    value = np.array([special, 1], np.float32)
    pair = read_again(GoldenPair((), (GoldenTensor.of_output("y", value, 1e-5, 1e-5),)), tmp_path)
    assert pair.differences([value]) == []
    for other in (0.0, math.nan, math.inf, -math.inf):
        if not np.array_equal([other], [special], equal_nan=True):
            assert pair.differences([np.array([other, 1], np.float32)])


def test_difference_states_position_and_values(tmp_path: Path) -> None:
    golden = GoldenTensor.of_output("y", np.array([[1, 2], [3, 4]], np.float32), 1e-5, 0.0)
    assert golden.difference(np.array([[1, 2], [3.5, 4]], np.float32)) == (
        "1 of 4 values differ, at position 2: got 3.5, expected 3.0 (atol 1e-05, rtol 0)"
    )
    assert golden.difference(np.zeros((4,), np.float32)) == "got float32 [4], expected float32 [2, 2]"
    assert golden.difference(np.zeros((2, 2), np.float64)) == "got float64 [2, 2], expected float32 [2, 2]"


def test_integers_must_be_equal() -> None:
    golden = GoldenTensor.of_output("y", np.array([1, 2]), 0.5, 0.5)
    assert golden.difference(np.array([1, 3]))
    assert not golden.difference(np.array([1, 2]))


def test_unusable_positions_are_left_out() -> None:
    usable = np.array([True, False, True])
    golden = GoldenTensor.of_output("ids", np.array([5, 6, 7]), 0.0, 0.0, usable)
    assert not golden.difference(np.array([5, 9, 7]))
    assert golden.difference(np.array([5, 6, 8]))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dtype": "complex64"}, "dtype: got 'complex64'"),
        ({"dtype": 3}, "dtype: got 3, expected a text"),
        ({"positions": [1.5, 1]}, "positions: got 1.5, expected int64"),
        ({"positions": [10**30, 1]}, "positions: got a number outside of int64"),
        ({"rtol": -1}, "rtol: got -1"),
        ({"atol": 1e300}, "atol: got 1e+300"),
        ({"atol": 10**400}, "expected 0 <= atol"),
        ({"shape": [3]}, "values: got 2, expected 3"),
        ({"shape": [-2]}, "expected sizes"),
        ({"shape": [True, 2]}, "expected sizes"),
        ({"shape": [1] * 40}, "expected sizes"),
        ({"shape": [1 << 20] * 3}, "expected at most"),
        ({"values": [1.0, "x"]}, "got 'x', expected float32"),
        ({"values": [1.0, None]}, "got None, expected float32"),
        ({"values": [1.0, [2.0]]}, "got [2.0], expected float32"),
        ({"dtype": "int8", "values": [1, 300]}, "outside of int8"),
        ({"dtype": "int64", "values": [1, True]}, "got True, expected int64"),
        ({"dtype": "uint8", "values": [1, -1]}, "outside of uint8"),
        ({"positions": [0]}, "values: got 2, expected 1"),
        ({"positions": [0, 2]}, "0 <= position < 2"),
        ({"positions": [0, -1]}, "0 <= position < 2"),
        ({"atol": "0"}, "atol: got '0'"),
    ],
)
def test_wrong_tensor_is_refused(tmp_path: Path, changed: dict[str, Any], message: str) -> None:
    path = tmp_path / "golden.json"
    path.write_text(json.dumps({"inputs": [], "outputs": [tensor(**changed)]}))
    with pytest.raises(BadInputError) as error:
        GoldenPair.read(path)
    assert message in str(error.value)
    assert str(path) in str(error.value)


NO_PAIRS = ["", "[", "[]", "null", '{"inputs": []}', '{"inputs": [1], "outputs": []}', "[" * 9999, "\udcff"]


@pytest.mark.parametrize("content", [*NO_PAIRS, '{"inputs": [], "outputs": [{"name": NaN}]}'])
def test_file_of_something_else_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "golden.json"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(BadInputError, match=r"golden\.json"):
        GoldenPair.read(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"inputs": [], "outputs": []}, "outputs: got none"),
        ({"inputs": [], "outputs": [tensor(positions=[], values=[])]}, "outputs: got no values"),
        ({"inputs": [], "outputs": [tensor(), tensor()]}, "expected each name once"),
        ({"inputs": [tensor(), tensor()], "outputs": [tensor()]}, "expected each name once"),
        ({"inputs": [tensor(positions=[0, 1])], "outputs": [tensor()]}, "inputs: got positions"),
        ({"outputs": [tensor()]}, "inputs is missing, expected a list"),
    ],
)
def test_pair_that_proves_nothing_is_refused(tmp_path: Path, content: dict[str, Any], message: str) -> None:
    path = tmp_path / "golden.json"
    path.write_text(json.dumps(content))
    with pytest.raises(BadInputError) as error:
        GoldenPair.read(path)
    assert message in str(error.value)
