"""Rows of ANT and TT match the packed form within float32 rounding, in both layouts of ANT."""

import numpy as np
import pytest

from edge_embed.exporters.tflite.ant import ANT
from edge_embed.exporters.tflite.graph import Graph
from edge_embed.exporters.tflite.tt import TT
from edge_embed.packed import PackedANT, PackedTT

RANDOM = np.random.default_rng(0)


def ant(rows, anchors, columns, density, weight_type="float32", value_type="float32", padding_idx=None):
    transform = np.abs(RANDOM.normal(size=(rows, anchors))) * (RANDOM.random((rows, anchors)) < density)
    values = RANDOM.normal(size=(anchors, columns)).astype(value_type)
    return PackedANT.from_dense(transform.astype(np.float32), values, padding_idx, weight_type)


def tt(rows, row_shape, col_shape, ranks, value_type="float32", padding_idx=None):
    sizes = zip(row_shape, ranks, col_shape, ranks[1:], strict=False)
    return PackedTT(tuple(RANDOM.normal(size=size).astype(value_type) for size in sizes), rows, padding_idx)


ANT_TABLES = {
    "sparse": ant(40, 7, 6, 0.3),
    "full": ant(40, 7, 6, 1.0),
    "int8 weights, padding": ant(40, 7, 6, 0.3, "int8", padding_idx=3),
    "uint16 ids, float16": ant(40, 300, 6, 0.05, "float16", "float16", padding_idx=3),
    "256 anchors": ant(40, 256, 4, 0.5, padding_idx=3),
    "ids above 2^15": ant(20, 40_000, 4, 0.001),
    "uint32 ids": ant(5, 70_000, 2, 0.0005),
    "no entries": ant(10, 5, 4, 0.0),
}
TT_TABLES = {
    "two cores": tt(20, (3, 7), (2, 3), (1, 2, 1)),
    "three cores, padding": tt(60, (4, 4, 4), (2, 2, 3), (1, 3, 2, 1), padding_idx=3),
    "ring, padding": tt(60, (4, 4, 4), (2, 2, 3), (2, 3, 2, 2), padding_idx=3),
    "float16": tt(60, (4, 4, 4), (2, 2, 3), (1, 3, 2, 1), "float16"),
}
CASES = [(ANT, table, layout) for table in ANT_TABLES.values() for layout in ("fixed", "csr")]
CASES += [(TT, table, "cores") for table in TT_TABLES.values()]
NAMES = [f"{name}, {layout}" for name in ANT_TABLES for layout in ("fixed", "csr")] + list(TT_TABLES)


@pytest.fixture(params=CASES, ids=NAMES)
def case(request):
    return request.param


def write(case, path, dtype, rank):
    method, packed, layout = case
    graph = Graph()
    result = method.rows(graph, "table", packed, graph.input("ids", dtype, (-1,) * rank), layout)
    graph.write(path, {"rows": result}, {})
    return path


@pytest.mark.parametrize(("dtype", "rank"), [("int64", 2), ("int32", 1)])
def test_rows_match_packed_form_within_rounding(case, open_file, tmp_path, dtype, rank):
    _, packed, _ = case
    run = open_file(write(case, tmp_path / "model.tflite", dtype, rank), ["ids"])
    for shape in [(1, 1), (4, 7), (1, 1), (0, 3)] if rank == 2 else [(1,), (9,), (1,)]:
        ids = RANDOM.integers(0, packed.num_embeddings, shape).astype(dtype)
        rows = run(ids)
        assert (rows.dtype, rows.shape) == (packed.row_type, (*shape, packed.embedding_dim))
        allowed = (1e-6 if packed.row_type == "float32" else 2e-3) * packed.magnitudes(ids)
        assert (np.abs(rows - packed.rows_float64(ids)) <= allowed).all()
    if packed.padding_idx is not None:
        ids = np.full((1,) * rank, packed.padding_idx, dtype)
        assert not any(run(ids).tobytes())  # +0.0, not -0.0


def test_ids_out_of_range_are_refused(case, open_file, tmp_path):
    n = case[1].num_embeddings
    for dtype, wrong in (("int64", (-1, n, -n, 2**32, -(2**32))), ("int32", (-1, n, -n))):
        run = open_file(write(case, tmp_path / f"{dtype}.tflite", dtype, 1), ["ids"])
        run(np.array([0, n - 1], dtype))
        for bad in wrong:
            with pytest.raises(RuntimeError, match=r"GATHER|gather"):
                run(np.array([0, bad], dtype))


def test_layout_auto_chooses_the_smaller():
    assert ANT.choose(ANT_TABLES["full"], "auto") == "fixed"
    assert ANT.choose(ant(500, 100, 4, 0.02), "auto") == "csr"


def test_layout_chosen_is_no_larger_than_packed_form(tmp_path):
    for density in (0.02, 0.5, 1.0):
        packed = ant(2000, 100, 8, density)
        path = write((ANT, packed, ANT.choose(packed, "auto")), tmp_path / f"{density}.tflite", "int64", 1)
        assert path.stat().st_size <= 1.02 * packed.nbytes + 8192
