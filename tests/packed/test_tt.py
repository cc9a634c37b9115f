"""The packed TT form: rows against a loop over elements, and every refusal."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.packed import PackedTT, TTShape, load_tables, save_tables

ID_TYPES = ["i1", "i8", "u2", "u8", ">i4"]


def table(
    row_shape: tuple[int, ...] = (3, 2, 2),
    col_shape: tuple[int, ...] = (2, 1, 3),
    ranks: tuple[int, ...] = (1, 3, 2, 1),
    n: int | None = None,
    padding: int | None = None,
    value_type: str = "float32",
) -> PackedTT:
    rng = np.random.default_rng([*row_shape, *col_shape, *ranks])
    shapes = zip(row_shape, ranks, col_shape, ranks[1:], strict=False)
    cores = tuple(rng.standard_normal(shape).astype(value_type) for shape in shapes)
    return PackedTT(cores, math.prod(row_shape) if n is None else n, padding)


@st.composite
def tables(draw: st.DrawFn) -> PackedTT:
    cores = draw(st.integers(2, 4))
    sizes = st.lists(st.integers(1, 3), min_size=cores, max_size=cores)
    row_shape, col_shape = tuple(draw(sizes)), tuple(draw(sizes))
    ring = draw(st.integers(1, 3))
    ranks = (ring, *draw(st.lists(st.integers(1, 4), min_size=cores - 1, max_size=cores - 1)), ring)
    n = draw(st.integers(1, math.prod(row_shape)))
    padding = draw(st.one_of(st.none(), st.integers(0, n - 1)))
    return table(row_shape, col_shape, ranks, n, padding, draw(st.sampled_from(["float32", "float16"])))


def slow_row(packed: PackedTT, row_id: int, absolute: bool = False) -> list[float]:
    """Return one row by FORMAT.md: each column is the sum over all paths through the ranks."""
    if row_id == packed.padding_idx:
        return [0.0] * packed.embedding_dim
    row_index = []
    for core in reversed(packed.cores):
        row_id, digit = divmod(row_id, len(core))
        row_index.insert(0, digit)
    slices = [np.asarray(core[digit], np.float64) for core, digit in zip(packed.cores, row_index, strict=True)]
    row = []
    for columns in itertools.product(*(range(piece.shape[1]) for piece in slices)):  # the last runs fastest
        total = []
        for path in itertools.product(*(range(piece.shape[0]) for piece in slices)):
            after = (*path[1:], path[0])
            factors = [piece[r, j, s] for piece, r, j, s in zip(slices, path, columns, after, strict=True)]
            total.append(abs(math.prod(factors)) if absolute else math.prod(factors))
        row.append(math.fsum(total))
    return row


@given(tables(), st.data())
def test_rows_equal_slow_reference(packed: PackedTT, data: st.DataObject) -> None:
    shape = tuple(data.draw(st.lists(st.integers(0, 2), max_size=3)))
    count = math.prod(shape)
    flat = data.draw(st.lists(st.integers(0, packed.num_embeddings - 1), min_size=count, max_size=count))
    ids = np.array(flat, data.draw(st.sampled_from(ID_TYPES))).reshape(shape)
    rows, exact, magnitudes = packed.rows(ids), packed.rows_float64(ids), packed.magnitudes(ids)
    assert rows.dtype == packed.cores[0].dtype
    assert exact.dtype == magnitudes.dtype == np.float64
    assert rows.shape == exact.shape == magnitudes.shape == (*shape, packed.embedding_dim)
    expected = np.array([slow_row(packed, i) for i in flat]).reshape(rows.shape)
    sums = np.array([slow_row(packed, i, absolute=True) for i in flat]).reshape(rows.shape)
    np.testing.assert_array_less(np.abs(exact - expected), 1e-13 * sums + 1e-300)
    np.testing.assert_allclose(magnitudes, sums, rtol=1e-13)
    np.testing.assert_array_equal(rows, exact.astype(rows.dtype))


@given(tables())
def test_file_restores_the_same_table(tmp_path_factory: pytest.TempPathFactory, packed: PackedTT) -> None:
    path = tmp_path_factory.mktemp("tt") / "t"
    save_tables(path, {"t": packed})
    loaded = load_tables(path)["t"]
    assert isinstance(loaded, PackedTT)
    assert (loaded.shape, loaded.padding_idx) == (packed.shape, packed.padding_idx)
    ids = np.arange(packed.num_embeddings)
    assert loaded.rows(ids).tobytes() == packed.rows(ids).tobytes()


@pytest.mark.parametrize("cores", [2, 3, 4, 5, 6])
def test_cores_of_any_number_match_slow_reference(cores: int) -> None:
    packed = table((2,) * cores, (2,) * cores, (2, *(1, 3, 2, 3, 2)[: cores - 1], 2))
    rows = packed.rows_float64(np.arange(2**cores))
    np.testing.assert_allclose(rows[-2], slow_row(packed, 2**cores - 2), rtol=1e-12, atol=1e-12)


def test_first_index_is_most_significant() -> None:
    """A train of rank 1 is a Kronecker product, whose order numpy defines."""
    first, second = np.array([[1, 2], [3, 4], [5, 6]], np.float32), np.array([[1, 10], [100, 1000]], np.float32)
    packed = PackedTT((first[:, np.newaxis, :, np.newaxis], second[:, np.newaxis, :, np.newaxis]), 6)
    np.testing.assert_array_equal(packed.rows(np.arange(6)), np.kron(first, second))


def test_ids_beyond_table_within_cores_are_refused() -> None:
    packed = table(n=7)
    assert packed.rows(6).shape == (6,)
    with pytest.raises(IdOutOfRangeError, match=r"got id 7, expected 0 to 6 \(the table has 7 rows\)"):
        packed.rows(7)
    with pytest.raises(IdOutOfRangeError, match="got id -1 at position 1"):
        packed.magnitudes([0, -1])
    with pytest.raises(BadInputError, match="expected integers"):
        packed.rows_float64(1.0)


def test_padding_row_is_positive_zero() -> None:
    packed = table(padding=4)
    assert packed.rows([4, 5, 4])[::2].tobytes() == bytes(48)
    assert packed.rows(5).all()
    assert not packed.magnitudes(4).any()


def test_row_is_independent_of_other_ids() -> None:
    packed = table((30, 40), (32, 32), (1, 50, 1))  # several blocks
    ids = np.arange(1200)
    together = packed.rows(ids)
    for some in (ids[5:6], ids[300:801], ids[::-7]):
        assert packed.rows(some).tobytes() == together[some].tobytes()


def test_sizes_match_stored_tensors() -> None:
    packed = table((3, 2, 2), (2, 1, 3), (1, 3, 2, 1), n=11)
    parameters = 3 * 1 * 2 * 3 + 2 * 3 * 1 * 2 + 2 * 2 * 3 * 1
    assert (packed.num_embeddings, packed.embedding_dim) == (11, 6)
    assert packed.nbytes == sum(core.nbytes for core in packed.cores) == 4 * parameters
    assert packed.compression_ratio == pytest.approx(11 * 6 / parameters)
    half = table(value_type="float16")
    assert half.nbytes == 2 * parameters
    assert half.compression_ratio == pytest.approx(2 * 12 * 6 / parameters)


def test_compression_ratio_matches_paper() -> None:
    """Table 1, IMDB, TT1: 25,000 x 256 as (25, 30, 40) x (4, 8, 8) of rank 16 is 93 times smaller."""
    assert int(TTShape(25_000, (25, 30, 40), (4, 8, 8), (1, 16, 16, 1)).compression_ratio) == 93


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((6, (6,), (4,), (1, 1)), "row_shape: got 1 factors, expected 2 to 6"),
        ((6, (2,) * 7, (2,) * 7, (1,) * 8), "row_shape: got 7 factors, expected 2 to 6"),
        ((6, (2, 3), (4,), (1, 2, 1)), "col_shape: got 1 numbers, expected 2 for 2 cores"),
        ((6, (2, 3), (2, 2), (1, 2)), "ranks: got 2 numbers, expected 3 for 2 cores"),
        ((6, (2, 3), (2, 2), (1, 2, 2)), "ranks: got 1x2x2, expected the last equal to the first"),
        ((7, (2, 3), (2, 2), (1, 2, 1)), "row_shape: got 2x3 with product 6, expected 7 .num_embeddings. to 9223"),
        ((6, (2**32, 2**32), (2, 2), (1, 2, 1)), "row_shape: got 4294967296x4294967296 with product 18446"),
        ((0, (2, 3), (2, 2), (1, 2, 1)), "num_embeddings: got 0"),
        ((True, (2, 3), (2, 2), (1, 2, 1)), "num_embeddings: got True"),
        ((6, (2, 3.0), (2, 2), (1, 2, 1)), r"row_shape\[1\]: got 3.0"),
        ((6, (2, 3), (0, 2), (1, 2, 1)), r"col_shape\[0\]: got 0, expected a positive integer"),
        ((6, (2, 3), (2, 2), (1, [], 1)), r"ranks\[1\]: got \[\]"),
        ((6, (2, 3), (2, 2), (1, 10**5000, 1)), r"ranks\[1\]: got a number of 16610 bits"),
        ((6, (2, 3), (2**31, 2**31), (1, 2, 1)), "expected at most 9223372036854775807"),
        ((6, (2, 3), (2, 2), (1, 2**62, 1)), "expected at most 9223372036854775807"),
        ((6, (2, 3), (2**12, 2), (1, 2**11, 1)), "would hold 8388608 numbers per row, expected at most 4194304"),
        ((6, (2, 3), (2, 2), (2**11, 1, 2**11)), "would hold 16777216 numbers per row"),
        ((6, (2, 3), (2, 2), (1, 2, 1), "float64"), "value_type: got 'float64', expected float32 or float16"),
    ],
)
def test_impossible_shapes_are_refused(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        TTShape(*arguments)


def cores(*changes: tuple[int, NDArray[Any]]) -> tuple[NDArray[Any], ...]:
    made = list(table((2, 3), (2, 2), (1, 2, 1)).cores)
    for index, core in changes:
        made[index] = core
    return tuple(made)


def spoiled(number: float) -> NDArray[np.float32]:
    core: NDArray[np.float32] = np.ones((3, 2, 2, 1), np.float32)
    core[2, 1, 0, 0] = number
    return core


@pytest.mark.parametrize(
    ("made", "n", "padding", "message"),
    [
        ((), 6, None, "cores: got 0, expected 2 to 6"),
        (cores()[:1], 6, None, "cores: got 1, expected 2 to 6"),
        (cores() * 4, 6, None, "cores: got 8, expected 2 to 6"),
        (
            cores((1, np.ones((3, 2, 2), np.float32))),
            6,
            None,
            r"core_1: got float32 \[3, 2, 2\], expected float32",
        ),
        (
            cores((1, np.ones((3, 2, 2, 1)))),
            6,
            None,
            r"core_1: got float64 .*, expected float32 or float16",
        ),
        (([[1.0]], [[1.0]]), 6, None, "core_0: got a list, expected a numpy array"),
        (cores((0, np.ones((2, 1, 2, 2), ">f4"))), 6, None, "core_0: got >f4"),
        (cores((1, np.ones((3, 2, 2, 1), np.float16))), 6, None, "core_1: got float16 .*, expected float32"),
        (
            cores((1, np.ones((3, 3, 2, 1), np.float32))),
            6,
            None,
            r"core_1: .*\[3, 3, 2, 1\], expected .*\[3, 2, 2, 1",
        ),
        (cores((1, np.ones((3, 2, 2, 2), np.float32))), 6, None, "ranks: got 1x2x2, expected the last equal"),
        (cores((1, np.ones((0, 2, 2, 1), np.float32))), 6, None, r"row_shape\[1\]: got 0"),
        (cores(), 7, None, "row_shape: got 2x3 with product 6, expected 7"),
        (cores(), None, None, "num_embeddings: got None"),
        (cores(), 5, 5, "padding_idx: got 5, expected none or 0 to 4"),
        (
            cores((1, spoiled(np.nan))),
            6,
            None,
            "core_1: row index 2, rank before 1, column index 0, .* got nan",
        ),
        (cores((1, spoiled(-np.inf))), 6, None, "core_1: row index 2, .* got -inf, expected finite numbers"),
    ],
)
def test_invalid_tables_are_refused(made: Any, n: Any, padding: Any, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        PackedTT(made, n, padding)


def test_tensors_and_attributes_rebuild_table() -> None:
    packed = table(n=11, padding=2)
    again = PackedTT.from_tensors(packed.tensors(), packed.attributes(), packed.padding_idx)
    assert again.rows(np.arange(11)).tobytes() == packed.rows(np.arange(11)).tobytes()
    assert list(packed.tensors()) == list(packed.shape.tensor_specs()) == ["core_0", "core_1", "core_2"]
    with pytest.raises(BadInputError, match=r"tensors: got \['core_0', 'core_2'\], expected \['core_0', 'core_1'\]"):
        PackedTT.from_tensors({"core_0": packed.cores[0], "core_2": packed.cores[2]}, packed.attributes())
    changes: list[tuple[dict[str, Any], str]] = [
        ({"row_shape": [2, 3, 2]}, "attributes: got"),
        ({"row_shape": "322"}, "row_shape: got '322', expected a list"),
        ({"ranks": [1, 3, 2, 1.0]}, r"ranks\[3\]: got 1.0"),
        ({"more": 1}, "attributes: got"),
    ]
    for wrong, message in changes:
        with pytest.raises(BadInputError, match=message):
            PackedTT.from_tensors(packed.tensors(), packed.attributes() | wrong)
    with pytest.raises(BadInputError, match="num_embeddings: got None"):
        PackedTT.from_tensors(packed.tensors(), {})
    with pytest.raises(BadInputError, match="num_embeddings: got 12, expected 11 as in the attributes"):
        PackedTT.shape_from(12, 6, packed.attributes())
    with pytest.raises(BadInputError, match=r"embedding_dim: got 6\.0, expected 6"):
        PackedTT.shape_from(11, 6.0, packed.attributes())  # type: ignore[arg-type]
