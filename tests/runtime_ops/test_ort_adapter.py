"""DPQEmbedding in ONNX Runtime: the same bits as numpy, and a clear error for invalid inputs."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto
from ort_nodes import assert_same_bits, make_graph_input, open_session, run

IDS_TYPES = [(TensorProto.INT64, np.int64), (TensorProto.INT32, np.int32)]


@pytest.mark.parametrize(("ids_type", "dtype"), IDS_TYPES)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("num_codes", [2, 3, 4, 16, 37, 256, 1000, 65536])
def test_rows_are_bit_exact(make_table, num_codes, shared, ids_type, dtype):
    table = make_table(num_codes=num_codes, shared=shared, num_groups=5, width=3)
    ids = np.arange(50, dtype=dtype).reshape(10, 5)
    assert_same_bits(run(open_session(table.model(ids_type)), ids), table.rows(ids))


@pytest.mark.parametrize(("ids_type", "dtype"), IDS_TYPES)
@pytest.mark.parametrize("shape", [(), (1,), (0,), (3, 0), (1, 1), (2, 3, 4), (1, 2, 1, 2, 1, 2)])
def test_ids_of_any_rank_and_empty_batches_are_accepted(make_table, shape, ids_type, dtype):
    table = make_table()
    ids = np.random.default_rng(1).integers(0, 50, shape).astype(dtype)
    session = open_session(table.model(ids_type, rank=len(shape)))
    assert_same_bits(run(session, np.asarray(ids)), table.rows(ids).reshape(*shape, 24))


def test_padding_row_is_positive_zero(make_table):
    table = make_table(padding_idx=3)
    ids = np.array([[3, 2, 3]])
    rows = run(open_session(table.model()), ids)
    assert_same_bits(rows, table.rows(ids))
    assert rows[0, 0].tobytes() == bytes(24 * 4)


@pytest.mark.parametrize(("ids_type", "dtype"), IDS_TYPES)
@pytest.mark.parametrize("bad_id", [-1, 50, -(2**31), 2**31 - 1])
def test_bad_id_is_named_with_its_bound(make_table, bad_id, ids_type, dtype):
    session = open_session(make_table().model(ids_type))
    ids = np.array([[0, 49], [bad_id, 60]], dtype=dtype)
    with pytest.raises(Exception, match=rf"got id {bad_id} at position 2 .*expected 0 <= id < 50"):
        run(session, ids)
    run(session, np.zeros((2, 2), dtype))  # the session stays usable


def test_first_bad_id_of_parallel_batch_is_named(make_table):
    session = open_session(make_table().model(), threads=4)
    ids = np.zeros((1, 50_000), np.int64)
    ids[0, [12_345, 12_346, 49_999]] = [77, 78, 79]
    for _ in range(20):
        with pytest.raises(Exception, match="got id 77 at position 12345 "):
            run(session, ids)


# Below, at and above the sizes at which rows are split in blocks (of 32 KiB, 341 rows of this table).
@pytest.mark.parametrize("count", [340, 341, 342, 682, 683, 684, 1023, 1024, 20_000])
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_parallel_batches_are_bit_exact(make_table, threads, count):
    table = make_table()
    ids = np.random.default_rng(count).integers(0, 50, (1, count))
    assert_same_bits(run(open_session(table.model(), threads), ids), table.rows(ids))


def test_rows_larger_than_a_block_are_bit_exact(make_table):
    table = make_table(num_embeddings=7, num_groups=300, width=40)  # 48 KB a row
    ids = np.array([[6, 0, 3, 3, 5]])
    assert_same_bits(run(open_session(table.model(), threads=2), ids), table.rows(ids))


def test_session_serves_many_threads(make_table):
    table = make_table(num_embeddings=500)
    session = open_session(table.model(), threads=2)
    batches = [np.random.default_rng(seed).integers(0, 500, (8, 200)) for seed in range(40)]
    with ThreadPoolExecutor(8) as pool:
        for ids, rows in zip(batches, pool.map(lambda ids: run(session, ids), batches), strict=True):
            assert_same_bits(rows, table.rows(ids))


def test_sessions_open_from_many_threads(make_table):
    table = make_table()
    ids = np.arange(50).reshape(1, 50)
    with ThreadPoolExecutor(8) as pool:
        for rows in pool.map(lambda _: run(open_session(table.model()), ids), range(24)):
            assert_same_bits(rows, table.rows(ids))


def set_external(tensor: onnx.TensorProto, file: Path, offset: int) -> None:
    raw = tensor.raw_data
    with file.open("r+b" if file.exists() else "wb") as stream:
        stream.seek(offset)
        stream.write(raw)
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in {"location": file.name, "offset": str(offset), "length": str(len(raw))}.items():
        tensor.external_data.add(key=key, value=value)


@pytest.mark.parametrize("misalign", [1, 2, 3])
def test_external_data_at_misaligned_offset_is_read(make_table, tmp_path, misalign):
    table = make_table(num_embeddings=5000, num_codes=37)
    model = table.model()
    codes, values = model.graph.initializer
    set_external(codes, tmp_path / "data.bin", misalign)
    set_external(values, tmp_path / "data.bin", 65536 + misalign)
    onnx.save(model, tmp_path / "model.onnx")
    ids = np.arange(5000).reshape(1, 5000)
    assert_same_bits(run(open_session(tmp_path / "model.onnx"), ids), table.rows(ids))


def test_codes_out_of_range_stay_in_their_group(make_table):
    table = make_table(num_codes=5)  # 3 bits: codes 5, 6 and 7 can be stored but are invalid
    table.codes = np.random.default_rng(2).integers(0, 8, table.codes.shape)
    ids = np.arange(50).reshape(1, 50)
    assert_same_bits(run(open_session(table.model()), ids), table.rows(ids))


def test_table_that_is_not_constant_is_checked_at_each_run(make_table):
    table = make_table()
    session = open_session(make_graph_input(table.model()))
    ids = np.array([[1, 49]])
    feed = {"ids": ids, "codes": table.packed, "values": table.values}
    assert_same_bits(session.run(None, feed)[0], table.rows(ids))
    with pytest.raises(Exception, match=r"got codes of shape \[50, 2\], expected \[rows, 3\]"):
        session.run(None, feed | {"codes": np.ascontiguousarray(table.packed[:, :2])})
    with pytest.raises(Exception, match="got id 49 at position 1"):
        session.run(None, feed | {"codes": table.packed[:49]})


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"format_version": 2}, "got format_version 2, expected 1 .*upgrade edge-embed"),
        ({"format_version": 0}, "got format_version 0, expected 1 .*export the model again"),
        ({"format_version": None}, "got no integer attribute format_version"),
        ({"bits": None}, "got no integer attribute bits"),
        ({"padding_idx": None}, "got no integer attribute padding_idx"),
        ({"bits": 0}, "got bits=0 .*expected bits from 1 to 16"),
        ({"bits": 2**40}, r"got bits=1099511627776 .*expected bits from 1 to 16"),
        ({"bits": 5}, r"got codes of shape \[50, 3\], expected \[rows, 4\]"),
        ({"num_groups": 0}, "num_groups=0, expected .*num_groups of at least 1"),
        ({"num_groups": 2**62}, "num_groups=4611686018427387904, expected .*num_groups of at least 1"),
        ({"num_groups": 5}, r"got values of shape \[6, 16, 4\], expected \[5 or 1, 16, group width\]"),
        ({"num_codes": 15}, r"got values of shape \[6, 16, 4\], expected \[6 or 1, 15, group width\]"),
        ({"padding_idx": 50}, "padding_idx must be -1 .*got num_embeddings=50.*padding_idx=50"),
        ({"padding_idx": -2}, "padding_idx must be -1 .*padding_idx=-2"),
    ],
)
def test_wrong_attribute_is_refused_at_load(make_table, attributes, message):
    with pytest.raises(Exception, match=message):
        open_session(make_table().model(**attributes))


@pytest.mark.parametrize(
    ("packed_shape", "values_shape", "message"),
    [
        ((50, 2), (6, 16, 4), r"got codes of shape \[50, 2\], expected \[rows, 3\] .*6 groups of 4 bits"),
        ((50, 4), (6, 16, 4), r"got codes of shape \[50, 4\]"),
        ((0, 3), (6, 16, 4), r"got codes of shape \[0, 3\], expected .*at least one row"),
        ((150,), (6, 16, 4), r"got codes of shape \[150\]"),
        ((50, 3), (5, 16, 4), r"got values of shape \[5, 16, 4\]"),
        ((50, 3), (6, 8, 4), r"got values of shape \[6, 8, 4\]"),
        ((50, 3), (6, 16, 0), r"got values of shape \[6, 16, 0\]"),
        ((50, 3), (6, 64), r"got values of shape \[6, 64\]"),
    ],
)
def test_shapes_that_disagree_are_refused_at_load(make_table, packed_shape, values_shape, message):
    packed, values = np.zeros(packed_shape, np.uint8), np.zeros(values_shape, np.float32)
    with pytest.raises(Exception, match=message):
        open_session(make_table().model(tensors={"codes": packed, "values": values}))


def test_num_codes_of_one_is_refused(make_table):
    table = make_table(num_codes=1)
    with pytest.raises(Exception, match=r"num_codes must lie between 2 and 65536; got .*num_codes=1,"):
        open_session(table.model())


@pytest.mark.parametrize("ids_type", [TensorProto.FLOAT, TensorProto.INT16, TensorProto.BOOL])
def test_ids_of_other_types_are_refused_at_load(make_table, ids_type):
    with pytest.raises(Exception, match="DPQEmbedding"):
        open_session(make_table().model(ids_type))


@pytest.mark.parametrize("shared", [False, True])
def test_float16_values_give_float16_rows_bit_by_bit(make_table, shared):
    table = make_table(num_codes=37, shared=shared, width=5, padding_idx=2, dtype=np.float16)
    table.values.view(np.uint16).flat[::7] = 0x7D01  # a signalling NaN: arithmetic would make it quiet
    ids = np.arange(50).reshape(5, 10)
    expected = table.values[0 if shared else np.arange(6), table.codes].reshape(50, -1)
    expected[2] = 0
    assert_same_bits(run(open_session(table.model()), ids), expected[ids])


def test_tables_of_one_model_give_their_own_rows(make_table):
    first, second = make_table(), make_table(num_codes=256, num_embeddings=9, shared=True)
    model, other = first.model(), second.model()
    model.graph.MergeFrom(onnx.compose.add_prefix(other, "b_").graph)
    session = open_session(model)
    ids = np.array([[0, 8]])
    rows = session.run(None, {"ids": ids, "b_ids": ids})
    assert_same_bits(rows[0], first.rows(ids))
    assert_same_bits(rows[1], second.rows(ids))
