"""The packed ANT form: rows against a loop over its entries, packing against a dense product, every refusal."""

import math
import tracemalloc
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.packed import ANTShape, PackedANT, load_tables, save_tables

from .ant_tables import sparse_transform, table

ID_TYPES = ["i1", "i8", "u2", "u8", ">i4"]


@st.composite
def tables(draw: st.DrawFn) -> PackedANT:
    n = draw(st.integers(1, 20))
    return table(
        n,
        draw(st.integers(1, 9)),
        draw(st.one_of(st.integers(1, 12), st.sampled_from([255, 256, 257]))),
        draw(st.one_of(st.none(), st.integers(0, n - 1))),
        draw(st.sampled_from(["float32", "float16", "int8"])),
        draw(st.sampled_from(["float32", "float16"])),
        draw(st.integers(0, 3)),
    )


def slow_row(packed: PackedANT, row_id: int, absolute: bool = False) -> list[float]:
    """Return one row by FORMAT.md, exactly in fractions, as float64 in the end."""
    total = [Fraction(0)] * packed.embedding_dim
    for entry in range(int(packed.row_offsets[row_id]), int(packed.row_offsets[row_id + 1])):
        for column in range(packed.embedding_dim):
            anchor = Fraction(float(packed.anchors[int(packed.anchor_ids[entry]), column]))
            term = Fraction(float(packed.weights[entry])) * anchor
            total[column] += abs(term) if absolute else term
    return [float(Fraction(float(packed.weight_scale[0])) * number) for number in total]


@given(tables(), st.data())
def test_rows_equal_exact_sums(packed: PackedANT, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 3), max_size=3)))
    count = math.prod(shape)
    flat = data.draw(st.lists(st.integers(0, packed.num_embeddings - 1), min_size=count, max_size=count))
    ids = np.array(flat, data.draw(st.sampled_from(ID_TYPES))).reshape(shape)
    rows, exact, magnitudes = packed.rows(ids), packed.rows_float64(ids), packed.magnitudes(ids)
    assert rows.dtype == packed.anchors.dtype
    assert exact.dtype == magnitudes.dtype == np.float64
    assert rows.shape == exact.shape == magnitudes.shape == (*shape, packed.embedding_dim)
    expected = np.array([slow_row(packed, i) for i in flat]).reshape(rows.shape)
    sums = np.array([slow_row(packed, i, absolute=True) for i in flat]).reshape(rows.shape)
    np.testing.assert_array_less(np.abs(exact - expected), 1e-13 * sums + 1e-300)
    np.testing.assert_allclose(magnitudes, sums, rtol=1e-13)
    np.testing.assert_array_equal(rows, exact.astype(rows.dtype))


@given(tables())
def test_file_restores_the_same_table(tmp_path_factory: pytest.TempPathFactory, packed: PackedANT) -> None:
    path = tmp_path_factory.mktemp("ant") / "t"
    save_tables(path, {"t": packed})
    loaded = load_tables(path)["t"]
    assert isinstance(loaded, PackedANT)
    assert loaded.shape == packed.shape
    for name, array in packed.tensors().items():
        assert loaded.tensors()[name].dtype == array.dtype
        np.testing.assert_array_equal(loaded.tensors()[name], array)
    ids = np.arange(packed.num_embeddings)
    assert loaded.rows(ids).tobytes() == packed.rows(ids).tobytes()


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("weight_type", ["float32", "float16"])
def test_transform_is_stored_exactly(dtype: str, weight_type: str) -> None:
    transform = sparse_transform(50, 7, dtype=dtype)
    packed = PackedANT.from_dense(transform, np.eye(7, dtype=np.float32), None, weight_type)
    stored = transform.astype(weight_type)
    np.testing.assert_array_equal(packed.rows_float64(np.arange(50)), stored.astype(np.float64))
    assert packed.weights.dtype == weight_type
    assert packed.weight_scale.tolist() == [1.0]
    assert len(packed.weights) == np.count_nonzero(stored)


def test_int8_weights_round_half_to_even_and_drop_zeros() -> None:
    transform = np.array([[127, 0.5, 1.5], [2.5, 0.4, 126.5]], np.float32)  # the scale is 1
    packed = PackedANT.from_dense(transform, np.eye(3, dtype=np.float32), None, "int8")
    assert packed.weight_scale.tolist() == [1.0]
    assert packed.row_offsets.tolist() == [0, 2, 4]
    assert packed.anchor_ids.tolist() == [0, 2, 0, 2]
    assert packed.weights.tolist() == [127, 2, 2, 126]


@given(st.floats(0, 2.0**127, width=32, exclude_min=True), st.integers(0, 50))
def test_int8_weights_are_within_half_a_step(largest: float, seed: int) -> None:
    fractions = np.random.default_rng(seed).random((6, 4), np.float32)
    fractions[0, 0] = 1
    transform = fractions * np.float32(largest)
    packed = PackedANT.from_dense(transform, np.eye(4, dtype=np.float32), None, "int8")
    scale = float(packed.weight_scale[0])
    assert 0 < scale <= max(largest / 127 * (1 + 1e-6), 1.5e-45)
    error = np.abs(packed.rows_float64(np.arange(6)) - transform)
    tiny = 1e-43  # where float32 has no more digits, the scale has none either
    assert error.max() <= 0.5 * scale * (1 + 1e-4) + (largest if largest < 127 * tiny else 0)


def test_int8_weights_stay_within_127_for_subnormal_scales() -> None:
    smallest = np.finfo(np.float32).smallest_subnormal
    transform = np.array([[178, 1]], np.float32) * smallest  # 178 / 127 smallest numbers round to one
    packed = PackedANT.from_dense(transform, np.eye(2, dtype=np.float32), None, "int8")
    assert packed.weights.tolist() == [127, 1]
    assert packed.weight_scale.tolist() == [float(smallest)]


def test_padding_row_is_emptied_on_packing() -> None:
    transform = sparse_transform(6, 5)
    transform[2] = np.nan
    packed = PackedANT.from_dense(transform, np.ones((5, 3), np.float32), 2, "int8")
    assert np.isnan(transform[2]).all()  # the caller's own array stays unchanged
    assert packed.rows([2, 2]).tobytes() == bytes(24)
    assert packed.row_offsets[2] == packed.row_offsets[3]
    assert packed.rows(np.arange(6)).any()


@pytest.mark.parametrize("weight_type", ["float32", "float16", "int8"])
def test_table_of_zeros_is_stored_without_entries(tmp_path: Any, weight_type: str) -> None:
    packed = PackedANT.from_dense(np.zeros((3, 2), np.float32), np.ones((2, 4), np.float32), None, weight_type)
    assert packed.weights.shape == packed.anchor_ids.shape == (0,)
    save_tables(tmp_path / "t", {"t": packed})
    assert load_tables(tmp_path / "t")["t"].rows([[0], [2]]).tobytes() == bytes(32)


@pytest.mark.parametrize(
    ("anchors", "dtype"), [(1, "uint8"), (256, "uint8"), (257, "uint16"), (65_536, "uint16"), (65_537, "uint32")]
)
def test_anchor_ids_have_smallest_type(tmp_path: Any, anchors: int, dtype: str) -> None:
    transform = np.zeros((2, anchors), np.float32)
    transform[1, [0, -1]] = 1
    packed = PackedANT.from_dense(transform, np.arange(anchors, dtype=np.float32)[:, np.newaxis])
    save_tables(tmp_path / "t", {"t": packed})
    loaded = load_tables(tmp_path / "t")["t"]
    assert loaded.tensors()["anchor_ids"].dtype == dtype
    assert loaded.rows([0, 1]).tolist() == [[0], [anchors - 1]]


def test_ids_may_be_scalars_lists_or_empty() -> None:
    packed = table()
    assert packed.rows(3).shape == (6,)
    np.testing.assert_array_equal(packed.rows([[3, 3]])[0, 1], packed.rows(np.int8(3)))
    assert packed.rows(np.zeros((2, 0), np.int32)).shape == (2, 0, 6)
    with pytest.raises(IdOutOfRangeError, match="got id 11, expected 0 to 10"):
        packed.rows(11)
    with pytest.raises(IdOutOfRangeError, match="got id -1"):
        packed.magnitudes([0, -1])
    with pytest.raises(BadInputError, match="expected integers"):
        packed.rows_float64([1.0])


def test_row_is_independent_of_other_ids() -> None:
    packed = table(n=3000, dim=1000, anchors=40)  # several blocks
    ids = np.arange(3000)
    together = packed.rows(ids)
    for some in (ids[5:6], ids[1000:2001], ids[::-7]):
        assert packed.rows(some).tobytes() == together[some].tobytes()


def test_row_with_every_anchor_among_empty_ones_is_exact() -> None:
    transform = np.zeros((2000, 5000), np.float32)
    transform[7] = 1
    packed = PackedANT.from_dense(transform, np.ones((5000, 300), np.float32))
    assert packed.rows([6, 7, 8])[:, 0].tolist() == [0, 5000, 0]


def test_sum_beyond_type_is_infinite_without_warning(recwarn: pytest.WarningsRecorder) -> None:
    packed = PackedANT.from_dense(np.full((1, 1), 60_000, np.float32), np.array([[-2]], np.float16))
    assert packed.rows(0).tolist() == [-np.inf]
    assert not recwarn.list


def test_sizes_match_stored_tensors() -> None:
    packed = table(n=50, dim=6, anchors=300)
    nonzeros = len(packed.weights)
    assert packed.nbytes == sum(array.nbytes for array in packed.tensors().values())
    assert packed.nbytes == 51 * 4 + nonzeros * (2 + 4) + 4 + 300 * 6 * 4
    assert packed.compression_ratio == pytest.approx(32 * 50 * 6 / (32 * nonzeros + 32 * 300 * 6))
    small = table(n=50, dim=6, anchors=200, weight_type="int8", value_type="float16")
    assert small.nbytes == sum(array.nbytes for array in small.tensors().values())
    assert small.compression_ratio == pytest.approx(32 * 50 * 6 / (8 * len(small.weights) + 16 * 200 * 6))


def test_compression_ratio_matches_paper() -> None:
    """Table 1, AG-News with 10 anchors: 61,673 rows of 256 columns (15.79 M numbers) become 0.40 M: 40 times fewer."""
    shape = ANTShape(61_673, 256, 10, 400_000 - 10 * 256)
    assert shape.compression_ratio == pytest.approx(15.788e6 / 0.4e6, rel=1e-4)


def test_rows_take_memory_of_ids_not_of_table() -> None:
    packed = table(n=100_000, dim=64, anchors=8)
    tracemalloc.start()
    packed.rows(np.arange(100))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 40 * 100 * 64 * 4  # float64 terms of some entries each, not 100,000 rows


def test_packing_takes_little_more_memory_than_result() -> None:
    transform = np.zeros((400_000, 32), np.float32)
    transform[::2, 3] = 1
    seen: list[int] = []
    tracemalloc.start()
    packed = PackedANT.from_dense(transform, np.ones((32, 4), np.float32), on_block=seen.append)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak - packed.nbytes < 20 << 20  # the transform has 51 MB
    assert seen[-1] == 400_000
    assert seen == sorted(seen)
    assert 0 < seen[-2] < 400_000  # block by block


def test_tensors_and_attributes_rebuild_table() -> None:
    packed = table(padding=2)
    again = PackedANT.from_tensors(packed.tensors(), packed.attributes(), packed.padding_idx)
    assert again.rows(np.arange(11)).tobytes() == packed.rows(np.arange(11)).tobytes()
    assert list(packed.tensors()) == list(packed.shape.tensor_specs())
    with pytest.raises(BadInputError, match=r"tensors: got \['weights'\], expected \['anchor_ids', 'anchors'"):
        PackedANT.from_tensors({"weights": packed.weights}, packed.attributes())
    for wrong in [{"num_anchors": 6}, {"num_nonzeros": 0}, {"weight_type": "float16"}, {"more": 1}]:
        with pytest.raises(BadInputError, match="attributes: got"):
            PackedANT.from_tensors(packed.tensors(), packed.attributes() | wrong)
    with pytest.raises(BadInputError, match="attributes: got"):
        PackedANT.from_tensors(packed.tensors(), {})
