"""Named tensors that this package and the C++ runner exchange."""

import string
from contextlib import suppress

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from edge_embed.targets.tensors import read_tensors, write_tensors

NUMBERS = st.sampled_from(
    [np.bool_, np.int8, np.uint8, np.int16, np.int32, np.int64, np.uint64, np.float16, np.float32, np.float64]
).flatmap(lambda dtype: arrays.arrays(dtype, arrays.array_shapes(min_dims=0, min_side=0, max_side=4)))
TEXTS = arrays.arrays(object, arrays.array_shapes(min_dims=0, min_side=0, max_side=3), elements=st.text(max_size=9))
NAMES = st.text(string.printable + "é中/\0", max_size=12)


@given(tensors=st.dictionaries(NAMES, st.one_of(NUMBERS, TEXTS), max_size=3))
def test_tensors_written_are_read_back(tmp_path_factory, tensors):
    path = tmp_path_factory.mktemp("tensors") / "0.in"
    write_tensors(path, tensors)
    found = read_tensors(path)
    assert list(found) == list(tensors)
    for name, array in tensors.items():
        assert (found[name].dtype, found[name].shape) == (array.dtype, array.shape)
        if array.dtype == object:
            assert found[name].tolist() == array.tolist()
        else:
            assert found[name].tobytes() == array.tobytes()  # NaNs too


def test_layout_matches_header_of_runner(tmp_path):
    path = tmp_path / "0.in"
    write_tensors(path, {"ids": np.array([[1], [-2]], np.int64), "text": np.array(["é"], object)})
    assert path.read_bytes() == (
        b"EETENS1\0\x02\0\0\0"
        b"\x03\0\0\0ids\x07\0\0\0\x02\0\0\0" + (2).to_bytes(8, "little") + (1).to_bytes(8, "little")
        + (16).to_bytes(8, "little") + (1).to_bytes(8, "little") + b"\xfe" + 7 * b"\xff"
        + b"\x04\0\0\0text\x08\0\0\0\x01\0\0\0" + (1).to_bytes(8, "little")
        + (10).to_bytes(8, "little") + (2).to_bytes(8, "little") + "é".encode()
    )  # fmt: skip


def test_bfloat16_tensors_are_read_back(tmp_path):
    array = np.array([1.5, -2], ml_dtypes.bfloat16)
    write_tensors(tmp_path / "x", {"x": array})
    assert read_tensors(tmp_path / "x")["x"].tobytes() == array.tobytes()


@given(cut=st.integers(0, 200), at=st.integers(0, 200), value=st.integers(0, 255))
def test_damaged_file_raises_value_error_only(tmp_path_factory, cut, at, value):
    path = tmp_path_factory.mktemp("tensors") / "0.out"
    write_tensors(path, {"scores": np.ones((2, 3), np.float32), "text": np.array(["one", "two"], object)})
    data = bytearray(path.read_bytes())
    data[at % len(data)] = value
    path.write_bytes(data[: len(data) - cut % len(data)])
    with suppress(ValueError):  # a MemoryError, a KeyError or a hang would be wrong
        read_tensors(path)


def test_file_of_other_format_is_refused(tmp_path):
    (tmp_path / "x").write_bytes(b"PK\3\4 and more")
    with pytest.raises(ValueError, match="is not a file of tensors"):
        read_tensors(tmp_path / "x")
