"""Top-k of every method in ONNX Runtime: the result of sorting its own logits, without storing them."""

import numpy as np
import pytest
from ort_nodes import AntTable, DpqTable, Int8DpqTable, Table, open_session, run, run_all

NO_BIAS = np.zeros(0, np.float32)


def assert_best(
    table: Table, hidden: np.ndarray, k: int, bias: np.ndarray = NO_BIAS, threads: int = 1
) -> tuple[np.ndarray, np.ndarray]:
    """Compare with sorted logits of the same library bit by bit; the stable sort keeps the lowest id first."""
    dtype, rank = hidden.dtype.type, hidden.ndim
    bias = bias.astype(dtype)
    logits = run(open_session(table.logits_model(dtype, rank)), hidden)
    if bias.size:
        logits = (logits.astype(np.float32) + bias.astype(np.float32)).astype(dtype)
    order = np.argsort(-logits.astype(np.float64), axis=-1, kind="stable")[..., :k]
    model = table.topk_model(k, int(bias.size > 0), dtype, rank)
    values, ids = run_all(open_session(model, threads), hidden, bias)
    assert (values.dtype, ids.dtype) == (hidden.dtype, np.int64)
    np.testing.assert_array_equal(ids, order)
    np.testing.assert_array_equal(values, np.take_along_axis(logits, order, -1))
    return values, ids


def vectors(table: Table, *shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(4).standard_normal((*shape, table.dim)).astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("k", [1, 10, 50])
def test_topk_of_every_method_matches_sorted_logits(make_any, k, biased, dtype):
    table = make_any(padding_idx=3)
    bias = np.linspace(-2, 2, 50, dtype=np.float32) if biased else NO_BIAS
    assert_best(table, vectors(table, 3, dtype=dtype), k, bias)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (2, 3, 2)])
def test_hidden_of_any_rank_and_empty_batches_is_accepted(make_any, shape):
    table = make_any()
    values, ids = assert_best(table, vectors(table, *shape), 4)
    assert values.shape == ids.shape == (*shape, 4)


@pytest.mark.parametrize("make", [DpqTable, Int8DpqTable])
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(("batch", "k"), [(1, 1), (1, 1000), (9, 100), (130, 3)])
def test_rows_are_searched_over_several_threads(make, batch, k, threads):
    table = make(num_embeddings=20_011, padding_idx=5, num_groups=9)
    for _ in range(3 if threads > 1 else 1):
        assert_best(table, vectors(table, batch), k, threads=threads)


def test_table_of_equal_rows_gives_lowest_ids():
    table = DpqTable(num_embeddings=9000, padding_idx=4)
    table.codes[:] = 3
    _, ids = assert_best(table, np.zeros((2, table.dim), np.float32), 20, threads=3)
    assert ids.tolist() == [list(range(20))] * 2


@pytest.mark.parametrize(
    ("k", "biased", "message"),
    [
        (0, 0, "got k=0 and biased=0, expected k from 1 to 1000"),
        (1001, 0, "got k=1001 and biased=0, expected k from 1 to 1000"),
        (3, 2, "got k=3 and biased=2, expected .* biased 0 or 1"),
    ],
)
def test_impossible_attributes_are_refused(k, biased, message):
    with pytest.raises(Exception, match=f"DPQTopK: {message}"):
        open_session(DpqTable().topk_model(k, biased))


def test_topk_of_more_than_all_rows_is_refused():
    session = open_session(AntTable().topk_model(51))
    with pytest.raises(Exception, match=r"ANTTopK: k must lie between 1 and 1000 .*; got k=51 and 50 rows"):
        run(session, np.ones((1, 24), np.float32), NO_BIAS)


@pytest.mark.parametrize("shape", [(49,), (51,), (0,)])
def test_bias_of_another_size_is_refused(make_any, shape):
    session = open_session(make_any().topk_model(3, biased=1))
    with pytest.raises(Exception, match=rf"TopK: got bias of shape \[{shape[0]}\], expected \[50\]"):
        run(session, np.ones((1, 24), np.float32), np.zeros(shape, np.float32))


def test_states_that_are_not_finite_give_different_rows(make_any):
    table = make_any(padding_idx=3)
    hidden = vectors(table, 3)
    hidden[0, 0], hidden[1, 1] = np.nan, np.inf
    values, ids = run_all(open_session(table.topk_model(7)), hidden, NO_BIAS)
    assert all(len(set(row)) == 7 and min(row) >= 0 and max(row) < 50 for row in ids.tolist())
    assert np.isfinite(values[2]).all()
