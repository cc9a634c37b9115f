"""Prepacked TT cores: the same rows and bags, within the given session memory or not at all."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ort_nodes import TtTable, assert_close, make_graph_input, open_session, run

from edge_embed.bench import native
from edge_embed.bench.c_table import table_of
from edge_embed.exporters.onnx.session_memory.tt import merged_bytes
from edge_embed.packed.tt import PackedTT

ENOUGH = 1 << 20


def bytes_of_the_library(packed: PackedTT, most: int) -> int:
    size, _ = native.prepared_bytes(table_of(packed), most)
    return size


@st.composite
def shapes(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int]:
    """Return I, J, R and n."""
    cores = draw(st.integers(2, 6))
    sizes = st.lists(st.integers(1, 4), min_size=cores, max_size=cores)
    rows, columns = tuple(draw(sizes)), tuple(draw(sizes))
    ring = draw(st.sampled_from([1, 1, 1, 2]))
    ranks = (ring, *draw(st.lists(st.integers(1, 9), min_size=cores - 1, max_size=cores - 1)), ring)
    return rows, columns, ranks, draw(st.integers(1, int(np.prod(rows))))


@settings(max_examples=200)
@given(shapes(), st.sampled_from([np.float32, np.float16]), st.data())
def test_merged_bytes_formula_matches_library(shape, dtype, data):
    rows, columns, ranks, n = shape
    sizes = zip(rows, ranks, columns, ranks[1:], strict=False)
    packed = PackedTT(tuple(np.ones(size, dtype) for size in sizes), n)
    most = merged_bytes(packed.shape, 1 << 62)
    assert bytes_of_the_library(packed, (1 << 64) - 1) == most
    for limit in {most, max(0, most - 1), data.draw(st.integers(0, 2 * most + 4)), 0}:
        found = merged_bytes(packed.shape, limit)
        assert bytes_of_the_library(packed, limit) == found <= limit


@pytest.mark.parametrize("memory_bytes", [0, 1, 2000, ENOUGH, 2**63 - 1])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("ring", [1, 2])
@pytest.mark.parametrize(
    ("row_shape", "col_shape"), [((7, 8), (4, 6)), ((3, 4, 5), (2, 3, 4)), ((2, 3, 3, 3), (3, 2, 2, 2))]
)
def test_rows_and_bags_are_equal_within_rounding(row_shape, col_shape, ring, dtype, memory_bytes):
    table = TtTable(row_shape=row_shape, col_shape=col_shape, ring=ring, dtype=dtype, padding_idx=49)
    ids = np.arange(50)[::-1].reshape(5, 10)
    rows = run(open_session(table.model(memory_bytes=memory_bytes)), ids)
    assert_close(rows, dtype, table.rows64[ids], table.magnitudes[ids])
    bags = open_session(table.bag_model(memory_bytes=memory_bytes))
    sums = run(bags, ids.reshape(-1), np.arange(0, 51, 10), np.empty(0, dtype))
    assert_close(sums, dtype, table.rows64[ids].sum(1), table.magnitudes[ids].sum(1))


def test_cores_are_merged_with_enough_memory():
    table, ids = TtTable(num_embeddings=60), np.arange(60).reshape(6, 10)
    plain, merged = (run(open_session(table.model(memory_bytes=most)), ids) for most in (2000, ENOUGH))
    assert plain.tobytes() == run(open_session(table.model()), ids).tobytes()  # 2000 bytes are too few
    assert plain.tobytes() != merged.tobytes()  # the same numbers in other roundings


def test_cores_that_are_no_constants_are_not_merged():
    table = TtTable(padding_idx=2)
    session = open_session(make_graph_input(table.model(memory_bytes=ENOUGH)))
    for scale in (1, 2):
        cores = [scale * core for core in table.cores]
        rows = run(session, np.arange(50).reshape(1, 50), *cores)
        assert_close(rows, np.float32, scale**3 * table.rows64[None], scale**3 * table.magnitudes[None])


def test_output_layers_ignore_memory_bytes():
    table = TtTable()
    model = table.logits_model()
    model.graph.node[0].attribute.add(name="memory_bytes", i=-1, type=2)
    hidden = np.ones((1, 24), np.float32)
    assert run(open_session(model), hidden).tobytes() == run(open_session(table.logits_model()), hidden).tobytes()


@pytest.mark.parametrize("memory_bytes", [-1, -(2**63)])
def test_memory_bytes_below_zero_is_refused_at_load(memory_bytes):
    for model in (TtTable().model(memory_bytes=memory_bytes), TtTable().bag_model(memory_bytes=memory_bytes)):
        with pytest.raises(Exception, match=rf"got memory_bytes={memory_bytes}, expected at least 0: .*export"):
            open_session(model)


@pytest.mark.parametrize("memory_bytes", [2**63 - 1, ENOUGH])
def test_product_beyond_any_memory_is_not_merged(memory_bytes):
    """The cores take a few megabytes, their products 2^62 bytes."""
    cores = {f"core_{k}": np.zeros((2 if k == 0 else 1 << 20, 1, 1, 1), np.float32) for k in range(4)}
    table = TtTable(num_embeddings=1, row_shape=(1,) * 4, col_shape=(1,) * 4, rank=1)
    session = open_session(table.model(tensors=cores, num_embeddings=1 << 61, memory_bytes=memory_bytes))
    assert not run(session, np.array([[(1 << 61) - 1]])).any()
