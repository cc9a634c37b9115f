"""The bag operator of every method in ONNX Runtime, against sums, means and maxima in numpy."""

from itertools import pairwise

import numpy as np
import pytest
from onnx import TensorProto
from ort_nodes import AntTable, Int8DpqTable, Table, assert_close, open_session, run

SUM, MEAN, MAX = 0, 1, 2
REDUCE = {SUM: np.sum, MEAN: np.mean, MAX: np.max}
IDS = np.array([0, 7, 49, 3, 3, 12, 3, 3, 1, 0])
OFFSETS = np.array([0, 3, 3, 5, 6, 8, 10, 10])  # two bags are empty; with padding 3, two more are


def expected_bags(
    table: Table, mode: int, ids: np.ndarray, offsets: np.ndarray, weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return bags and sums of magnitudes, float64 [B, d]."""
    factors = np.ones(len(ids)) if weights is None else weights.astype(np.float64)
    bags, magnitudes = np.zeros((2, len(offsets) - 1, table.dim))
    for bag, (begin, end) in enumerate(pairwise(offsets)):
        kept = [i for i in range(begin, end) if ids[i] != table.padding_idx]
        if kept:
            bags[bag] = REDUCE[mode](table.rows64[ids[kept]] * factors[kept, None], axis=0)
            magnitudes[bag] = (table.magnitudes[ids[kept]] * np.abs(factors[kept, None])).sum(axis=0)
    return bags, magnitudes


def none(table: Table) -> np.ndarray:
    return np.zeros(0, table.dtype)


@pytest.mark.parametrize("padding_idx", [-1, 3])
@pytest.mark.parametrize("floats", [np.float32, np.float16])
@pytest.mark.parametrize("mode", [SUM, MEAN, MAX])
def test_modes_skip_padding_and_give_zero_for_empty_bags(make_any, mode, floats, padding_idx):
    table = make_any(dtype=floats, padding_idx=padding_idx)
    got = run(open_session(table.bag_model(mode)), IDS, OFFSETS, none(table))
    assert_close(got, floats, *expected_bags(table, mode, IDS, OFFSETS))
    assert not got[[1, 6]].any()


@pytest.mark.parametrize("padding_idx", [-1, 3])
@pytest.mark.parametrize("floats", [np.float32, np.float16])
def test_sample_weights_scale_rows(make_any, floats, padding_idx):
    table = make_any(dtype=floats, padding_idx=padding_idx)
    weights = np.random.default_rng(5).standard_normal(len(IDS)).astype(floats)
    got = run(open_session(table.bag_model(SUM, weighted=1)), IDS, OFFSETS, weights)
    assert_close(got, floats, *expected_bags(table, SUM, IDS, OFFSETS, weights))


@pytest.mark.parametrize("mode", [SUM, MEAN, MAX])
def test_int8_values_of_dpq_table_are_reduced(mode):
    table = Int8DpqTable(padding_idx=3)
    got = run(open_session(table.bag_model(mode)), IDS, OFFSETS, none(table))
    assert_close(got, np.float32, *expected_bags(table, mode, IDS, OFFSETS))
    weights = np.random.default_rng(5).standard_normal(len(IDS)).astype(np.float32)
    got = run(open_session(table.bag_model(SUM, weighted=1)), IDS, OFFSETS, weights)
    assert_close(got, np.float32, *expected_bags(table, SUM, IDS, OFFSETS, weights))


def test_sample_weights_are_ignored_by_unweighted_node(make_any):
    table = make_any()
    session = open_session(table.bag_model(SUM))
    assert np.array_equal(run(session, IDS, OFFSETS, none(table)), run(session, IDS, OFFSETS, np.ones(3, np.float32)))


def test_int32_ids_are_accepted(make_any):
    table = make_any(padding_idx=3)
    got = run(
        open_session(table.bag_model(MEAN, ids_type=TensorProto.INT32)), IDS.astype(np.int32), OFFSETS, none(table)
    )
    assert_close(got, np.float32, *expected_bags(table, MEAN, IDS, OFFSETS))


@pytest.mark.parametrize(("ids", "bags"), [(0, 0), (0, 1), (0, 5)])
@pytest.mark.parametrize("weighted", [0, 1])
def test_empty_ids_and_bags_give_zeros(make_any, ids, bags, weighted):
    table = make_any()
    session = open_session(table.bag_model(SUM, weighted))
    got = run(session, np.zeros(ids, np.int64), np.zeros(bags + 1, np.int64), none(table))
    assert got.shape == (bags, table.dim)
    assert not got.any()


@pytest.mark.parametrize("threads", [1, 3])
def test_bags_are_reduced_over_several_threads(make_any, threads):
    table = make_any(padding_idx=0)
    random = np.random.default_rng(2)
    ids = random.integers(0, 50, 3000)
    offsets = np.sort(random.integers(0, 3001, 400))
    offsets[[0, -1]] = 0, 3000
    got = run(open_session(table.bag_model(MAX), threads), ids, offsets, none(table))
    assert_close(got, np.float32, *expected_bags(table, MAX, ids, offsets))


@pytest.mark.parametrize("bad_id", [-1, 50, 2**40])
def test_bad_id_is_named_with_its_bound(make_any, bad_id):
    table = make_any(padding_idx=3)
    ids = IDS.copy()
    ids[[4, 9]] = bad_id, 77
    with pytest.raises(Exception, match=rf"EmbeddingBag: got id {bad_id} at position 4 of ids, expected 0 <= id < 50"):
        run(open_session(table.bag_model()), ids, OFFSETS, none(table))


@pytest.mark.parametrize(
    ("offsets", "message"),
    [
        ([0, 3, 2, 10], "got offset 2 at position 2 of 4, and 10 ids"),
        ([1, 3, 10], "got offset 1 at position 0"),
        ([-1, 3, 10], "got offset -1 at position 0"),
        ([0, 3, 9], "got offset 9 at position 2"),
        ([0, 11, 10], "got offset 11 at position 1"),
        ([0, 2**62, 10], "got offset 4611686018427387904 at position 1"),
        ([0, -(2**63), 10], "got offset -9223372036854775808 at position 1"),
        ([0], "got offset 0 at position 0"),
        ([], r"got offsets of shape \[0\], expected \[bags \+ 1\]"),
    ],
)
def test_wrong_offsets_are_refused(make_any, offsets, message):
    table = make_any()
    with pytest.raises(Exception, match=message):
        run(open_session(table.bag_model()), IDS, np.array(offsets, np.int64), none(table))


@pytest.mark.parametrize("count", [0, 9, 11])
def test_sample_weights_of_wrong_number_are_refused(make_any, count):
    session = open_session(make_any().bag_model(weighted=1))
    with pytest.raises(Exception, match=rf"got sample_weights of shape \[{count}\], expected \[10\]"):
        run(session, IDS, OFFSETS, np.ones(count, np.float32))


@pytest.mark.parametrize(
    "attributes", [{"mode": 3}, {"mode": -1}, {"mode": 1, "weighted": 1}, {"mode": 2, "weighted": 1}, {"weighted": 2}]
)
def test_wrong_modes_are_refused_at_load(make_any, attributes):
    with pytest.raises(Exception, match=r"got mode=.*expected mode 0 .sum., 1 .mean. or 2 .max., and weighted 0, or 1"):
        open_session(make_any().bag_model(**attributes))


@pytest.mark.parametrize("missing", ["mode", "weighted", "format_version", "padding_idx"])
def test_missing_attributes_are_named(make_any, missing):
    with pytest.raises(Exception, match=f"EmbeddingBag: got no integer attribute {missing}"):
        open_session(make_any().bag_model(**{missing: None}))


def test_nan_stays_in_a_maximum():
    table = AntTable(num_embeddings=3, num_anchors=3, columns=2)
    table.transform = np.eye(3)
    table.anchors = np.array([[1, 5], [np.nan, 2], [3, 4]], np.float32)
    for ids in ([0, 1, 2], [1, 0, 2], [0, 2, 1]):
        got = run(open_session(table.bag_model(MAX)), np.array(ids), np.array([0, 3]), none(table))
        assert np.array_equal(got, np.array([[np.nan, 5]], np.float32), equal_nan=True)
