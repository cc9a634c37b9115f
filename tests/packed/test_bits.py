"""Bit packing against the definition, written out with Python integers."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed.bits import bits_for, pack, row_bytes, unpack

GROUPS = [1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 64, 65, 97]


def packed_by_definition(codes: list[int], bits: int) -> bytes:
    """Return a row as one big integer: code j is its digit j in base 2**bits."""
    number = sum(code << (j * bits) for j, code in enumerate(codes))
    return number.to_bytes((len(codes) * bits + 7) // 8, "little")


def random_codes(rows: int, groups: int, bits: int) -> NDArray[np.int64]:
    return np.random.default_rng(bits * 1000 + groups).integers(0, 1 << bits, (rows, groups))


@pytest.mark.parametrize("bits", range(1, 17))
@pytest.mark.parametrize("groups", GROUPS)
def test_layout_matches_documentation(bits: int, groups: int) -> None:
    codes = random_codes(5, groups, bits)
    packed = pack(codes, bits)
    assert packed.dtype == np.uint8
    assert [bytes(row) for row in packed] == [packed_by_definition(row.tolist(), bits) for row in codes]
    back = unpack(packed, bits, groups)
    assert back.dtype == (np.uint8 if bits <= 8 else np.uint16)
    np.testing.assert_array_equal(back, codes)


@given(st.data(), st.integers(1, 16), st.integers(1, 40), st.integers(0, 6))
def test_pack_and_unpack_round_trip(data: st.DataObject, bits: int, groups: int, rows: int) -> None:
    code = st.integers(0, 2**bits - 1)
    lists = data.draw(st.lists(st.lists(code, min_size=groups, max_size=groups), min_size=rows, max_size=rows))
    dtype: Any = data.draw(st.sampled_from([np.uint16, np.int32, np.int64, np.uint64, ">u4"]))
    codes = np.array(lists, dtype).reshape(rows, groups)
    packed = pack(codes, bits)
    assert packed.shape == (rows, row_bytes(groups, bits))
    np.testing.assert_array_equal(unpack(packed, bits, groups), codes)


def test_unpacked_bytes_pack_to_the_same_bytes() -> None:
    """The reverse direction loses only spare bits."""
    rows = np.random.default_rng(0).integers(0, 256, (50, 5), np.uint8)
    for bits, groups in [(1, 40), (2, 20), (4, 10), (5, 8), (8, 5), (10, 4)]:  # no spare bits
        np.testing.assert_array_equal(pack(unpack(rows, bits, groups), bits), rows)


def test_blocks_join_without_seams() -> None:
    codes = random_codes(30_000, 33, 5)  # several blocks of about a million bits
    packed = pack(codes, 5)
    np.testing.assert_array_equal(unpack(packed, 5, 33), codes)
    assert bytes(packed[-1]) == packed_by_definition(codes[-1].tolist(), 5)
    codes[29_999, 7] = 32
    with pytest.raises(BadInputError, match="row 29999, group 7: got code 32, expected 0 to 31"):
        pack(codes, 5)


@pytest.mark.parametrize("shape", [(), (0,), (4,), (2, 0, 3), (2, 3, 4)])
def test_unpack_keeps_leading_axes(shape: tuple[int, ...]) -> None:
    rows = np.zeros((*shape, 2), np.uint8)
    assert unpack(rows, 3, 5).shape == (*shape, 5)


def test_unpack_accepts_views() -> None:
    packed = pack(random_codes(8, 6, 4), 4)
    np.testing.assert_array_equal(unpack(packed[::-2], 4, 6), unpack(packed, 4, 6)[::-2])


@pytest.mark.parametrize(
    ("num_codes", "bits"), [(2, 1), (3, 2), (4, 2), (5, 3), (16, 4), (17, 5), (256, 8), (257, 9), (65536, 16)]
)
def test_bits_for_gives_least_number_of_bits(num_codes: int, bits: int) -> None:
    assert bits_for(num_codes) == bits


@pytest.mark.parametrize("num_codes", [-1, 0, 1, 65537])
def test_bits_for_refuses_numbers_out_of_range(num_codes: int) -> None:
    with pytest.raises(BadInputError, match=f"got {num_codes}, expected 2 to 65536"):
        bits_for(num_codes)


def test_pack_refuses_codes_that_do_not_fit() -> None:
    with pytest.raises(BadInputError, match="row 1, group 0: got code 8, expected 0 to 7"):
        pack(np.array([[1, 2], [8, 2]]), 3)
    with pytest.raises(BadInputError, match="row 0, group 1: got code -1"):
        pack(np.array([[1, -1]]), 3)
    with pytest.raises(BadInputError, match="float64"):
        pack(np.zeros((2, 2)), 3)  # type: ignore[arg-type]
    with pytest.raises(BadInputError, match=r"\[4\]"):
        pack(np.zeros(4, np.int64), 3)


def test_unpack_refuses_another_width() -> None:
    with pytest.raises(BadInputError, match=r"got uint8 \[4, 3\], expected uint8 \[..., 2\]"):
        unpack(np.zeros((4, 3), np.uint8), 3, 3)
    with pytest.raises(BadInputError, match="int8"):
        unpack(np.zeros((4, 2), np.int8), 3, 3)


@pytest.mark.parametrize("bits", [0, 17])
def test_bits_out_of_range_are_refused(bits: int) -> None:
    with pytest.raises(BadInputError, match=f"bits: got {bits}, expected 1 to 16"):
        pack(np.zeros((1, 1), np.int64), bits)
    with pytest.raises(BadInputError, match=f"bits: got {bits}, expected 1 to 16"):
        unpack(np.zeros((1, 1), np.uint8), bits, 1)
