"""The packed DPQ form: rows against a slow reference without shared code, and every refusal."""

import math
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.packed import DPQShape, PackedDPQ, load_tables, save_tables
from edge_embed.packed.dpq_values import quantized

ID_DTYPES = ["i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ">i4", ">u8"]


def table(
    n: int = 11,
    dim: int = 6,
    num_codes: int = 5,
    groups: int = 3,
    shared: bool = False,
    padding: int | None = None,
    value_type: str = "float32",
) -> PackedDPQ:
    rng = np.random.default_rng([n, dim, num_codes, groups])
    codes = rng.integers(0, num_codes, (n, groups))
    values = rng.standard_normal((1 if shared else groups, num_codes, dim // groups), np.float32)
    if value_type == "int8":
        stored, scales = quantized(values)
        return PackedDPQ.from_codes(codes, stored, padding, scales)
    return PackedDPQ.from_codes(codes, values.astype(value_type), padding)


def slow_row(packed: PackedDPQ, row_id: int) -> list[float]:
    """Return one row from the stored bytes with Python integers, by FORMAT.md."""
    groups, (tables, num_codes, group_width) = packed.num_groups, packed.values.shape
    if row_id == packed.padding_idx:
        return [0.0] * (groups * group_width)
    bits = math.ceil(math.log2(num_codes))
    number = int.from_bytes(packed.codes[row_id].tobytes(), "little")
    row: list[float] = []
    for group in range(groups):
        code = (number >> (group * bits)) % 2**bits
        stored = packed.values[group % tables, code].tolist()
        scale = 1 if packed.value_scales is None else Fraction(float(packed.value_scales[group % tables]))
        row += [float(number * scale) for number in stored]  # exact in float64: 7 bits times 24
    return row


@st.composite
def tables(draw: st.DrawFn) -> PackedDPQ:
    groups = draw(st.integers(1, 9))
    num_codes = draw(st.one_of(st.integers(2, 40), st.sampled_from([255, 256, 257, 4096, 65536])))
    n = draw(st.integers(1, 20))
    padding = draw(st.one_of(st.none(), st.integers(0, n - 1)))
    value_type = draw(st.sampled_from(["float32", "float16", "int8"]))
    return table(n, groups * draw(st.integers(1, 4)), num_codes, groups, draw(st.booleans()), padding, value_type)


@given(tables(), st.data())
def test_rows_equal_slow_reference(packed: PackedDPQ, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
    count = math.prod(shape)
    flat = data.draw(st.lists(st.integers(0, packed.num_embeddings - 1), min_size=count, max_size=count))
    ids = np.array(flat, data.draw(st.sampled_from(ID_DTYPES))).reshape(shape)
    rows = packed.rows(ids)
    assert rows.dtype == packed.row_type == ("float16" if packed.value_type == "float16" else "float32")
    assert rows.shape == (*shape, packed.embedding_dim)
    expected = np.array([slow_row(packed, i) for i in flat], rows.dtype).reshape(rows.shape)
    assert rows.tobytes() == expected.tobytes()  # bit for bit: 0.0 differs from -0.0
    assert packed.rows_float64(ids).tobytes() == expected.astype(np.float64).tobytes()
    assert packed.magnitudes(ids).tobytes() == np.abs(expected.astype(np.float64)).tobytes()


@given(tables())
def test_codes_of_rows_rebuild_table(packed: PackedDPQ) -> None:
    ids = np.arange(packed.num_embeddings)
    codes = packed.codes_of(ids)
    assert codes.dtype == (np.uint8 if packed.num_codes <= 256 else np.uint16)
    packed.check_codes()
    again = PackedDPQ.from_codes(codes, packed.values, packed.padding_idx, packed.value_scales)
    np.testing.assert_array_equal(again.codes, packed.codes)
    assert again.rows(ids).tobytes() == packed.rows(ids).tobytes()


def test_ids_may_be_scalars_lists_or_empty() -> None:
    packed = table()
    assert packed.rows(3).shape == (6,)
    np.testing.assert_array_equal(packed.rows([[3, 3]])[0, 1], packed.rows(np.int8(3)))
    assert packed.rows(np.zeros((2, 0), np.int32)).shape == (2, 0, 6)


def test_padding_row_is_positive_zero_for_any_codes() -> None:
    packed = table(padding=4)
    assert not packed.codes[4].any()
    assert packed.rows(4).tobytes() == bytes(24)
    assert packed.rows([4, 5, 4])[::2].tobytes() == bytes(48)
    assert packed.rows(5).any()


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (11, r"got id 11, expected 0 to 10 \(the table has 11 rows\)"),
        (-1, "got id -1, expected 0 to 10"),
        ([0, -2], "got id -2 at position 1"),
        ([[0, 1], [11, 0]], r"got id 11 at position \(1, 0\)"),
        (np.array([2**64 - 1], np.uint64), "got id 18446744073709551615"),
    ],
)
def test_ids_out_of_range_are_refused(ids: Any, message: str) -> None:
    with pytest.raises(IdOutOfRangeError, match=message):
        table().rows(ids)
    with pytest.raises(IndexError):
        table().codes_of(ids)


def test_narrow_ids_on_tall_table_are_looked_up() -> None:
    packed = table(n=70_000)
    np.testing.assert_array_equal(packed.rows(np.int8(127)), packed.rows(127))
    with pytest.raises(IdOutOfRangeError, match="-128"):
        packed.rows(np.int8(-128))


@pytest.mark.parametrize("ids", [1.0, [True], [], ["1"], [2**70], None, np.array([1], np.float16)])
def test_ids_that_are_no_integers_are_refused(ids: Any) -> None:
    with pytest.raises(BadInputError, match="expected integers") as caught:
        table().rows(ids)
    assert not isinstance(caught.value, IdOutOfRangeError)


def test_sizes_match_stored_tensors() -> None:
    packed = table(n=11, dim=6, num_codes=5, groups=3)
    assert (packed.num_embeddings, packed.embedding_dim, packed.num_codes) == (11, 6, 5)
    assert (packed.bits, packed.row_bytes) == (3, 2)
    assert packed.nbytes == packed.codes.nbytes + packed.values.nbytes == 11 * 2 + 3 * 5 * 2 * 4
    assert packed.compression_ratio == pytest.approx(32 * 11 * 6 / (11 * 3 * math.log2(5) + 32 * 5 * 6))
    shared = table(shared=True)
    assert shared.compression_ratio == pytest.approx(32 * 11 * 6 / (11 * 3 * math.log2(5) + 32 * 5 * 6 / 3))
    assert shared.nbytes == 11 * 2 + 5 * 2 * 4
    half = table(value_type="float16")
    assert half.nbytes == half.codes.nbytes + half.values.nbytes == 11 * 2 + 3 * 5 * 2 * 2
    assert half.compression_ratio == pytest.approx(32 * 11 * 6 / (11 * 3 * math.log2(5) + 16 * 5 * 6))
    narrow = table(value_type="int8")
    assert narrow.nbytes == sum(array.nbytes for array in narrow.tensors().values()) == 11 * 2 + 3 * 5 * 2 + 3 * 4
    assert narrow.compression_ratio == pytest.approx(32 * 11 * 6 / (11 * 3 * math.log2(5) + 8 * 5 * 6 + 32 * 3))
    narrow = table(value_type="int8", shared=True)
    assert narrow.nbytes == 11 * 2 + 5 * 2 + 4
    assert narrow.compression_ratio == pytest.approx(32 * 11 * 6 / (11 * 3 * math.log2(5) + 8 * 5 * 2 + 32))


@pytest.mark.parametrize("value_type", ["float16", "int8"])
def test_file_restores_narrow_values(tmp_path: Path, value_type: str) -> None:
    packed = table(value_type=value_type, padding=3)
    save_tables(tmp_path / "t", {"t": packed})
    loaded = load_tables(tmp_path / "t")["t"]
    assert (loaded.shape, loaded.value_type) == (packed.shape, value_type)
    assert loaded.rows(np.arange(11)).tobytes() == packed.rows(np.arange(11)).tobytes()


def test_rows_take_memory_of_ids_not_of_table() -> None:
    packed = table(n=200_000, dim=64, num_codes=16, groups=64)
    tracemalloc.start()
    packed.rows(np.arange(100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6 * 100 * 64 * 4


CODES = np.zeros((4, 2), np.uint8)
VALUES = np.zeros((3, 5, 2), np.float32)


@pytest.mark.parametrize(
    ("codes", "values", "groups", "padding", "message"),
    [
        (CODES.astype(np.int8), VALUES, 3, None, r"codes: got int8 \[4, 2\], expected uint8 \[4, 2\]"),
        (CODES[:, :1], VALUES, 3, None, r"codes: got uint8 \[4, 1\], expected uint8 \[4, 2\]"),
        (CODES[0], VALUES, 3, None, "expected .rows, row bytes"),
        (CODES, VALUES[0], 3, None, "expected .rows, row bytes"),
        (CODES[:0], VALUES, 3, None, "num_embeddings: got 0"),
        (CODES, VALUES.astype(np.float64), 3, None, r"values: got float64 \[3, 5, 2\], expected float32"),
        (CODES, VALUES.astype(">f4"), 3, None, "values: got >f4"),
        (CODES, VALUES[:2], 3, None, r"values: got float32 \[2, 5, 2\], expected float32 \[3, 5, 2\]"),
        (CODES, VALUES[:, :1], 3, None, "num_codes: got 1, expected 2 to 65536"),
        (CODES, VALUES[:, :, :0], 3, None, "embedding_dim: got 0"),
        (CODES, VALUES, 0, None, "num_groups: got 0"),
        (CODES, VALUES, None, None, "num_groups: got None"),
        (CODES, VALUES, True, None, "num_groups: got True"),
        (CODES, VALUES, 3, 4, "padding_idx: got 4, expected none or 0 to 3"),
        (CODES, VALUES, 3, -1, "padding_idx: got -1"),
        (CODES, VALUES, 3, True, "padding_idx: got True"),
        (CODES, np.full_like(VALUES, np.nan), 3, None, "values: group 0, code 0, column 0: got nan"),
        (CODES, np.where(np.arange(2) == 1, np.float32(-np.inf), VALUES), 3, None, "column 1: got -inf"),
    ],
)
def test_invalid_tables_are_refused(codes: Any, values: Any, groups: Any, padding: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        PackedDPQ(codes, values, groups, padding)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((10, 6, 1, 3), "num_codes: got 1, expected 2 to 65536"),
        ((10, 6, 65537, 3), "num_codes: got 65537"),
        ((10, 6, 5, 4), r"num_groups: got 4, expected a divisor of embedding_dim \(6\)"),
        ((0, 6, 5, 3), "num_embeddings: got 0, expected a positive integer"),
        ((10.0, 6, 5, 3), "num_embeddings: got 10.0"),
        ((True, 6, 5, 3), "num_embeddings: got True"),
        ((2**60, 6, 5, 3), "expected at most 9223372036854775807"),
        ((1, 2**62, 5, 1), "expected at most 9223372036854775807"),
        ((10, 6, 5, 1, True), "shared: got True"),
        ((10, 6, 5, 3, 1), "shared: got 1"),
        ((10, 6, 5, 3, False, "bfloat16"), "value_type: got 'bfloat16', expected float32, float16 or int8"),
    ],
)
def test_impossible_shapes_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        DPQShape(*arguments)


def spoiled(packed: PackedDPQ, row: int, codes: NDArray[np.uint8]) -> PackedDPQ:
    packed.codes[row] = codes
    return packed


@pytest.mark.parametrize("row", [0, 5, 69_999])
def test_check_codes_names_the_row(row: int) -> None:
    bad_code = spoiled(table(n=70_000), row, np.array([0b00_101_000, 0], np.uint8))
    with pytest.raises(BadInputError, match=f"row {row}, group 1: got code 5, expected 0 to 4"):
        bad_code.check_codes()
    with pytest.raises(BadInputError, match=f"row {row}, group 1"):
        bad_code.rows(row)
    spare_bit = spoiled(table(n=70_000), row, np.array([0, 0b0000_0010], np.uint8))
    with pytest.raises(BadInputError, match=f"row {row}: got spare bits"):
        spare_bit.check_codes()
    padding = spoiled(table(n=70_000, padding=row), row, np.array([0, 1], np.uint8))
    with pytest.raises(BadInputError, match=rf"row {row} \(padding\), group 2: expected zeros"):
        padding.check_codes()


def test_codes_that_only_the_bits_would_hold_are_refused() -> None:
    with pytest.raises(BadInputError, match="row 1, group 2: got code 5, expected 0 to 4"):
        PackedDPQ.from_codes(np.array([[0, 0, 0], [0, 4, 5]]), VALUES)


def test_tensors_and_attributes_rebuild_table() -> None:
    packed = table(padding=2)
    again = PackedDPQ.from_tensors(packed.tensors(), packed.attributes(), packed.padding_idx)
    assert again.rows(np.arange(11)).tobytes() == packed.rows(np.arange(11)).tobytes()
    with pytest.raises(BadInputError, match=r"got \['codes'\], expected \['codes', 'values'\]"):
        PackedDPQ.from_tensors({"codes": packed.codes}, packed.attributes())
    changes: list[dict[str, Any]] = [
        {"num_codes": 6},
        {"bits": 4},
        {"bits": 3.0},
        {"share_subspaces": True},
        {"extra": 1},
    ]
    for wrong in changes:
        with pytest.raises(BadInputError):
            PackedDPQ.from_tensors(packed.tensors(), packed.attributes() | wrong)
    with pytest.raises(BadInputError, match="num_groups"):
        PackedDPQ.from_tensors(packed.tensors(), {})
