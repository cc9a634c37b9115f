"""Rows of the portable bodies match the packed form, in ONNX Runtime and in the reference evaluator."""

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_embed.packed.ant import PackedANT
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.tiered import PackedTiered
from edge_embed.packed.tt import PackedTT
from edge_embed.targets.reference import open_reference

from ...pairwise import pairwise
from ...tiered_tables import KINDS, tiered
from .bodies import (
    ant,
    check_rows,
    dpq,
    dpq_value_types,
    id_types,
    ids_of,
    model_of,
    node_of,
    ordered,
    rows_model,
    scaled,
    session,
    tt,
    value_types,
)

SHAPES = ((), (1,), (7,), (0,), (2, 3), (0, 4), (3, 0), (2, 1, 3), (1200,))
shape_of_ids = st.one_of(st.sampled_from(SHAPES), st.just((1200,)))


def padding_of(data: st.DataObject, n: int) -> int | None:
    return data.draw(st.sampled_from([None, 0, n - 1]), "padding")


def draw_dpq(data: st.DataObject) -> PackedDPQ:
    codes = data.draw(st.sampled_from([2, 3, 4, 5, 8, 11, 16, 17, 64, 100, 128, 200, 256, 257, 1000, 4096]), "K")
    groups, width = data.draw(st.integers(1, 20), "D"), data.draw(st.integers(1, 4), "s")
    n = data.draw(st.sampled_from([1, 2, 19]), "n")
    packed = dpq(n, codes, groups, width, data.draw(st.booleans(), "shared"), data.draw(dpq_value_types, "type"),
                 padding_of(data, n))  # fmt: skip
    return scaled(packed, data.draw(st.integers(0, 3), "unused"), data.draw(st.sampled_from([0, 0, 1, 256]), "scales"))


def draw_ant(data: st.DataObject) -> PackedANT:
    n, anchors = data.draw(st.sampled_from([1, 2, 19]), "n"), data.draw(st.sampled_from([1, 2, 9, 300]), "A")
    weights = data.draw(st.sampled_from(["float32", "float16", "int8"]), "weights")
    density = data.draw(st.sampled_from([0.0, 0.1, 0.5, 1.0]), "density")
    return ant(n, anchors, data.draw(st.integers(1, 9), "d"), data.draw(value_types, "type"), weights, density,
               padding_of(data, n))  # fmt: skip


def draw_tt(data: st.DataObject) -> PackedTT:
    count = data.draw(st.integers(2, 6), "cores")
    rows = tuple(data.draw(st.lists(st.integers(1, 4), min_size=count, max_size=count), "I"))
    columns = tuple(data.draw(st.lists(st.integers(1, 3), min_size=count, max_size=count), "J"))
    n = data.draw(st.integers(1, int(np.prod(rows))), "n")
    packed = tt(n, rows, columns, data.draw(st.integers(1, 4), "R"), data.draw(st.sampled_from([1, 1, 2, 3]), "ring"),
                data.draw(value_types, "type"), padding_of(data, n))  # fmt: skip
    return ordered(packed) if data.draw(st.booleans(), "ordered") else packed


def draw_tiered(data: st.DataObject) -> PackedTiered:
    sizes = data.draw(st.tuples(*[st.sampled_from([1, 2, 19, 300])] * 3), "sizes")
    kinds, types = data.draw(st.tuples(*[st.sampled_from(KINDS)] * 3), "kinds"), data.draw(value_types, "type")
    padding_idx, dim = padding_of(data, sum(sizes)), 2 * data.draw(st.integers(1, 5), "d / 2")
    return tiered(kinds, sizes, dim, types, padding_idx, data.draw(st.booleans(), "sorted"))


DRAW = {"dpq": draw_dpq, "ant": draw_ant, "tt": draw_tt, "tiered": draw_tiered}


@pytest.mark.parametrize("method", DRAW)
@settings(max_examples=20)
@given(st.data())
def test_row_bodies_match_packed_form(method, data):
    packed = DRAW[method](data)
    check_rows(packed, ids_of(packed, data.draw(shape_of_ids, "shape"), data.draw(id_types, "ids")))


@pytest.mark.slow
@pytest.mark.parametrize("method", DRAW)
@settings(max_examples=60)
@given(st.data())
def test_row_bodies_match_packed_form_in_many_examples(method, data):
    test_row_bodies_match_packed_form.hypothesis.inner_test(method, data)


@pytest.mark.parametrize("shared", [False, True])
def test_codes_of_two_bytes_match_packed_form(shared):
    packed = dpq(n=6, codes=65536, groups=3, width=1, shared=shared, padding_idx=2)
    check_rows(packed, np.arange(6).reshape(2, 3))


@pytest.mark.parametrize(
    ("codes", "sizes", "padding_idx", "dtype"),
    pairwise([2, 3, 4, 13, 16, 60, 200, 256], [(8, 1), (8, 2), (3, 4), (8, 5)], [None, 3], ["float32", "int8"]),
)
def test_batches_small_and_large_give_same_rows(codes, sizes, padding_idx, dtype):
    """Batches of 512 ids and more look bytes up whole, or by element if the bytes hold few values."""
    groups, width = sizes
    packed = dpq(n=40, codes=codes, groups=groups, width=width, padding_idx=padding_idx, dtype=dtype)
    for shape in ((511,), (512,), (513,), (16, 64)):
        check_rows(packed, ids_of(packed, shape))


@pytest.mark.parametrize(("codes", "padding_idx", "kept"), [(256, None, 0), (200, None, 1), (256, 3, 1), (200, 3, 2)])
def test_session_drops_unneeded_clamp_and_padding(codes, padding_idx, kept, tmp_path):
    """No code is clamped where every byte is valid, and no zeros are scattered without padding."""
    path = tmp_path / "optimized.onnx"
    session(rows_model(dpq(codes=codes, padding_idx=padding_idx), np.arange(2)), "ENABLE_BASIC", str(path))
    names = [(node.op_type, node.output[0].rpartition("Embedding_")[2]) for node in onnx.load(path).graph.node]
    assert sum(name in [("Min", "code"), ("ScatterND", "padded_rows")] for name in names) == kept


def test_tables_of_different_bits_share_one_body():
    """All tables of a file share one function a node type; attributes and shapes hold the differences."""
    tables = [dpq(codes=codes, groups=8, padding_idx=codes % 7, seed=codes) for codes in (3, 16, 100, 300)]
    ids = ids_of(tables[0], (2, 300))
    nodes = [node_of(table, "rows", ["ids"], f"rows_{at}", prefix=f"{at}.") for at, table in enumerate(tables)]
    model = model_of(nodes, {"ids": ids}, {f"rows_{at}": (np.float32, 3) for at in range(4)})
    assert len(model.functions) == 1
    onnx.checker.check_model(model, full_check=True)
    for runner in (session(model), open_reference(model)):
        for rows, table in zip(runner.run(None, {"ids": ids}), tables, strict=True):
            assert rows.tobytes() == table.rows(ids).tobytes()
