"""The embedding operator of every method in ONNX Runtime: rows of its definition, rounded once."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from onnx import TensorProto
from ort_nodes import (
    AntTable,
    Int8DpqTable,
    Table,
    TtTable,
    assert_close,
    assert_same_bits,
    make_graph_input,
    open_session,
    run,
)

IDS_TYPES = [(TensorProto.INT64, np.int64), (TensorProto.INT32, np.int32)]
FLOATS = [np.float32, np.float16]
ROW_SHAPES = [
    ((7, 8), (4, 6)),
    ((60, 1), (1, 24)),
    ((3, 4, 5), (2, 3, 4)),
    ((2, 3, 3, 3), (3, 2, 2, 2)),
    ((2, 2, 2, 7, 1), (2, 1, 3, 2, 2)),
    ((2, 2, 2, 2, 2, 2), (2, 2, 1, 3, 1, 2)),
]


def assert_rows(table: Table, ids: np.ndarray, threads: int = 1, ids_type: int = TensorProto.INT64) -> None:
    got = run(open_session(table.model(ids_type, ids.ndim), threads), ids)
    assert_close(got, table.dtype, table.rows64[ids], table.magnitudes[ids])


@pytest.mark.parametrize(("ids_type", "dtype"), IDS_TYPES)
@pytest.mark.parametrize("floats", FLOATS)
def test_rows_of_every_type_match_definition(make_any, floats, ids_type, dtype):
    assert_rows(make_any(dtype=floats), np.arange(50, dtype=dtype).reshape(10, 5), ids_type=ids_type)


@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (2, 3, 4), (1, 2, 1, 2, 1, 2)])
def test_ids_of_any_rank_and_empty_batches_are_accepted(make_any, shape):
    assert_rows(make_any(), np.asarray(np.random.default_rng(1).integers(0, 50, shape)))


@pytest.mark.parametrize("floats", FLOATS)
def test_padding_row_is_positive_zero(make_any, floats):
    table = make_any(padding_idx=3, dtype=floats)
    rows = run(open_session(table.model()), np.array([[3, 2, 3]]))
    assert rows[0, 0].tobytes() == rows[0, 2].tobytes() == bytes(table.dim * rows.itemsize)
    assert rows[0, 1].any()


@pytest.mark.parametrize(("ids_type", "dtype"), IDS_TYPES)
@pytest.mark.parametrize("bad_id", [-1, 50, 55, -(2**31), 2**31 - 1])
def test_bad_id_is_named_with_its_bound(make_any, bad_id, ids_type, dtype):
    session = open_session(make_any().model(ids_type))
    with pytest.raises(Exception, match=rf"Embedding: got id {bad_id} at position 2 .*expected 0 <= id < 50"):
        run(session, np.array([[0, 49], [bad_id, 60]], dtype=dtype))
    run(session, np.zeros((2, 2), dtype))  # the session stays usable


def test_first_bad_id_of_parallel_batch_is_named(make_any):
    session = open_session(make_any().model(), threads=4)
    ids = np.zeros((1, 50_000), np.int64)
    ids[0, [12_345, 12_346, 49_999]] = [77, 78, 79]
    for _ in range(5):
        with pytest.raises(Exception, match="got id 77 at position 12345 "):
            run(session, ids)


@pytest.mark.parametrize("count", [1, 2, 63, 64, 65, 127, 128, 129, 4001])
@pytest.mark.parametrize("threads", [1, 3])
def test_parallel_batches_match_definition(make_any, threads, count):
    assert_rows(make_any(), np.random.default_rng(count).integers(0, 50, (1, count)), threads)


def test_session_serves_many_threads(make_any):
    table = make_any()
    session = open_session(table.model(), threads=2)
    batches = [np.random.default_rng(seed).integers(0, 50, (8, 100)) for seed in range(20)]
    with ThreadPoolExecutor(8) as pool:
        for ids, rows in zip(batches, pool.map(lambda ids: run(session, ids), batches), strict=True):
            assert_close(rows, np.float32, table.rows64[ids], table.magnitudes[ids])


def test_table_that_is_not_constant_is_read_at_each_run(make_any):
    table, other = make_any(), make_any(num_embeddings=40)
    session = open_session(make_graph_input(table.model()))
    ids = np.array([[1, 39]])
    for given in (table, other, table):
        got = run(session, ids, *given.tensors().values())
        assert_close(got, np.float32, given.rows64[ids], given.magnitudes[ids])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(
    ("num_codes", "num_groups", "width"), [(16, 6, 4), (5, 7, 3), (300, 9, 8), (2, 33, 1), (16, 2, 40)]
)
def test_int8_values_of_dpq_table_are_bit_exact(num_codes, num_groups, width, shared, threads):
    sizes = {"num_codes": num_codes, "num_groups": num_groups, "width": width}
    table = Int8DpqTable(shared=shared, padding_idx=3, **sizes)
    ids = np.random.default_rng(0).integers(0, 50, (70, 10))
    for model in (table.model(), make_graph_input(table.model())):
        given = list(table.tensors().values()) if model.graph.input[1:] else []
        assert_same_bits(run(open_session(model, threads), ids, *given), table.rows(ids))


@pytest.mark.parametrize("floats", FLOATS)
@pytest.mark.parametrize("weights", [np.float32, np.float16, np.int8])
@pytest.mark.parametrize("anchor_ids", [np.uint8, np.uint16, np.uint32])
def test_ant_tables_of_every_type_match_definition(anchor_ids, weights, floats):
    table = AntTable(id_dtype=anchor_ids, weight_dtype=weights, dtype=floats, padding_idx=4)
    assert_rows(table, np.arange(50).reshape(5, 10))


def test_anchor_ids_of_two_bytes_match_definition():
    assert_rows(AntTable(num_anchors=300, id_dtype=np.uint16), np.arange(50).reshape(5, 10))


def test_empty_ant_row_is_zero():
    table = AntTable()
    assert not table.transform[1].any()
    assert run(open_session(table.model()), np.array([[1]])).tobytes() == bytes(24 * 4)


def test_ant_table_without_weights_gives_zero_rows():
    table = AntTable()
    table.transform[:] = 0
    assert_rows(table, np.arange(50).reshape(5, 10))


def dense_table(**fields) -> AntTable:
    """Return rows with all but a few anchors: with AVX2 and NEON, 16 or more in a call are a matrix product."""
    return AntTable(num_anchors=60, columns=100, density=0.97, **fields)


@pytest.mark.parametrize("floats", FLOATS)
@pytest.mark.parametrize("weights", [np.float32, np.float16, np.int8])
def test_rows_of_most_anchors_match_definition(weights, floats):
    table = dense_table(weight_dtype=weights, dtype=floats, padding_idx=4)
    for count in (15, 16, 17, 64, 65, 200):
        assert_rows(table, np.arange(count) * 7 % 50)
    assert_rows(table, np.arange(5000).reshape(50, 100) % 50, threads=2)


def test_bad_id_between_rows_of_most_anchors_is_named():
    ids = np.arange(200) % 50
    ids[130] = 50
    with pytest.raises(Exception, match=r"ANTEmbedding: got id 50 at position 130 .*expected 0 <= id < 50"):
        run(open_session(dense_table().model(rank=1)), ids)


def test_infinite_anchor_changes_only_rows_that_use_it():
    table = dense_table()
    names_it = table.transform[:, 7] != 0
    assert 0 < names_it.sum() < 49
    table.anchors[7, 3] = np.inf
    rows = run(open_session(table.model(rank=1)), np.arange(50))
    assert (np.isinf(rows[:, 3]) == names_it).all()
    assert np.isfinite(np.delete(rows, 3, axis=1)).all()
    assert np.isfinite(rows[~names_it]).all()


@pytest.mark.parametrize("ring", [1, 3])
@pytest.mark.parametrize("floats", FLOATS)
@pytest.mark.parametrize(("row_shape", "col_shape"), ROW_SHAPES)
def test_cores_of_any_number_and_shape_match_definition(row_shape, col_shape, floats, ring):
    table = TtTable(row_shape=row_shape, col_shape=col_shape, dtype=floats, ring=ring)
    assert_rows(table, np.arange(50).reshape(5, 10))


def test_rows_with_more_scratch_than_stack_match_definition():
    table = TtTable(row_shape=(10, 10), col_shape=(40, 30), rank=50)
    assert_rows(table, np.arange(50).reshape(5, 10))
    assert_rows(table, np.arange(50).reshape(5, 10), threads=3)


def test_ids_between_table_and_product_of_its_cores_are_refused():
    table = TtTable(num_embeddings=50, row_shape=(3, 4, 5))
    with pytest.raises(Exception, match=r"got id 50 at position 0 .*expected 0 <= id < 50"):
        run(open_session(table.model()), np.array([[50]]))
