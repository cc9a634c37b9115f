"""The output layer of every method in ONNX Runtime: hidden @ rows transposed, without the table in memory."""

import numpy as np
import pytest
from ort_nodes import AntTable, DpqTable, Int8DpqTable, Table, assert_close, open_session, run, run_all


def assert_logits(table: Table, hidden: np.ndarray, threads: int = 1) -> np.ndarray:
    got = run(open_session(table.logits_model(hidden.dtype.type, hidden.ndim), threads), hidden)
    wide = hidden.astype(np.float64)
    exact, magnitude = wide @ table.rows64.T, np.abs(wide) @ table.magnitudes.T
    assert_close(got, hidden.dtype.type, exact, magnitude)
    return got


def vectors(table: Table, *shape: int, dtype: type = np.float32) -> np.ndarray:
    return np.random.default_rng(4).standard_normal((*shape, table.dim)).astype(dtype)


@pytest.mark.parametrize("hidden", [np.float32, np.float16])
@pytest.mark.parametrize("floats", [np.float32, np.float16])
def test_hidden_and_table_may_differ_in_type(make_any, floats, hidden):
    table = make_any(dtype=floats)
    assert_logits(table, vectors(table, 3, 4, dtype=hidden))


@pytest.mark.parametrize("hidden", [np.float32, np.float16])
@pytest.mark.parametrize("num_codes", [16, 300])
def test_int8_values_of_dpq_table_are_multiplied(num_codes, hidden):
    table = Int8DpqTable(num_embeddings=400, num_codes=num_codes, padding_idx=7)
    for batch in (1, 9):
        assert_logits(table, vectors(table, batch, dtype=hidden))


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (2, 3, 2)])
def test_hidden_of_any_rank_and_empty_batches_is_accepted(make_any, shape):
    table = make_any()
    assert assert_logits(table, vectors(table, *shape)).shape == (*shape, 50)


def test_padding_row_gives_zero_logits(make_any):
    table = make_any(padding_idx=3)
    assert not assert_logits(table, vectors(table, 5))[:, 3].any()


# Sums of 8 side by side, and the rest of a row.
@pytest.mark.parametrize("columns", [1, 2, 7, 8, 9, 15, 16, 17, 33])
def test_columns_of_any_number_are_multiplied(columns):
    table = AntTable(columns=columns)
    assert_logits(table, vectors(table, 3))


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("batch", [1, 2, 40])
def test_rows_are_multiplied_over_several_threads(threads, batch):
    table = AntTable(num_embeddings=5003, padding_idx=0)
    assert_logits(table, vectors(table, batch), threads)


@pytest.mark.parametrize("memory_bytes", [None, 0, 4095, 4096, 2**63 - 1])
@pytest.mark.parametrize("threads", [1, 3])
def test_session_memory_changes_no_number(memory_bytes, threads):
    table = DpqTable(num_embeddings=1011, num_groups=8, padding_idx=5)  # 64 blocks of 64 bytes
    hidden = vectors(table, 9)
    np.testing.assert_array_equal(
        run(open_session(table.logits_model(memory_bytes=memory_bytes), threads), hidden), assert_logits(table, hidden)
    )
    with_memory, without = (
        run_all(open_session(table.topk_model(20, memory_bytes=bytes_), threads), hidden, np.zeros(0, np.float32))
        for bytes_ in (memory_bytes, 0)
    )
    for got, expected in zip(with_memory, without, strict=True):
        np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize("memory_bytes", [-1, -(2**63)])
def test_memory_bytes_below_zero_is_refused(memory_bytes):
    with pytest.raises(Exception, match=rf"got memory_bytes={memory_bytes}, expected at least 0"):
        open_session(DpqTable().logits_model(memory_bytes=memory_bytes))


@pytest.mark.parametrize("shape", [(3, 23), (3, 25), (24, 3), (24, 0)])
def test_hidden_of_another_size_is_refused(make_any, shape):
    session = open_session(make_any().logits_model())
    with pytest.raises(
        Exception, match=rf"Logits: got hidden of shape \[{shape[0]}, {shape[1]}\], expected \[..., 24\]"
    ):
        run(session, np.zeros(shape, np.float32))


def test_hidden_of_rank_0_is_refused(make_any):
    session = open_session(make_any().logits_model(rank=0))
    with pytest.raises(Exception, match=r"got hidden of shape \[\], expected \[..., 24\]"):
        run(session, np.array(1.0, np.float32))
