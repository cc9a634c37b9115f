"""Rows of DPQ match the packed form bit by bit, for every number of codes and every layout."""

import numpy as np
import pytest
import torch

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.exporters.tflite.dpq import DPQ
from edge_embed.exporters.tflite.graph import Graph

# Codes have every number of bits: in whole bytes, with spare bits, across two and three bytes.
SIZES = [(2, 8), (2, 5), (3, 8), (4, 4), (5, 3), (11, 3), (16, 4), (16, 2), (16, 3), (32, 8), (100, 5), (129, 3)]
SIZES += [(256, 3), (257, 3), (1000, 7), (2048, 8), (4096, 3), (5000, 3), (10_000, 5), (20_000, 5), (65_536, 3)]


def layouts(packed):
    found = []
    for wanted in ("byte", "pairs"):
        try:
            found.append(DPQ.choose(packed, wanted))
        except BadInputError:
            assert wanted == "pairs"
    return dict.fromkeys(found)


@pytest.mark.parametrize("padding_idx", [None, 3])
@pytest.mark.parametrize("value_type", ["float32", "float16", "int8"])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize(("num_codes", "num_groups"), SIZES)
def test_rows_match_packed_form_bit_by_bit(
    make_packed, open_file, tmp_path, num_codes, num_groups, shared, value_type, padding_idx
):
    packed = make_packed(num_codes, num_groups, shared=shared, value_type=value_type, padding_idx=padding_idx)
    for layout in layouts(packed):
        graph = Graph()
        result = DPQ.rows(graph, "table", packed, graph.input("ids", "int64", (-1, -1)), layout)
        graph.write(tmp_path / "model.tflite", {"rows": result}, {})
        run = open_file(tmp_path / "model.tflite", ["ids"])
        for shape in ((1, 1), (10, 5), (1, 1), (0, 3)):  # grown and shrunk again
            ids = np.arange(np.prod(shape, dtype=int)).reshape(shape)
            rows = run(ids)
            assert (rows.dtype, rows.shape) == (packed.rows(ids).dtype, (*shape, packed.embedding_dim))
            assert rows.tobytes() == packed.rows(ids).tobytes(), layout
        if padding_idx is not None:
            assert not any(run(np.array([[padding_idx]])).tobytes())  # +0.0, not -0.0


@pytest.mark.parametrize("wrong", [-1, 50, -50, 2**32])
@pytest.mark.parametrize(("num_codes", "padding_idx"), [(16, None), (16, 3), (5, None), (200, None)])
def test_ids_out_of_range_are_refused(make_packed, open_file, tmp_path, num_codes, padding_idx, wrong):
    packed = make_packed(num_codes, 4, padding_idx=padding_idx)
    for layout in layouts(packed):
        graph = Graph()
        result = DPQ.rows(graph, "table", packed, graph.input("ids", "int64", (-1,)), layout)
        graph.write(tmp_path / "model.tflite", {"rows": result}, {})
        run = open_file(tmp_path / "model.tflite", ["ids"])
        run(np.array([0, 49]))
        with pytest.raises(RuntimeError, match=r"GATHER|gather"):
            run(np.array([0, wrong]))


def test_ids_have_type_of_example(export):
    layer = edge_embed.DPQEmbedding(20, 12, 16, 3)
    for dtype in (torch.int32, torch.int64):
        exported = export(layer, torch.tensor([[1, 2]], dtype=dtype))
        ids = torch.tensor([[7, 19, 0]], dtype=dtype).numpy()
        assert exported.content.inputs[0].dtype == ids.dtype.name
        assert exported.opened()(ids).tobytes() == exported.table.rows(ids).tobytes()


@pytest.mark.parametrize("size", [(20_000, 16, 32), (100_000, 16, 32), (100_000, 4, 64), (1000, 16, 64)])
def test_layout_auto_adds_a_fifth_at_most_and_prefers_pairs(make_packed, size):
    rows, num_codes, num_groups = size
    packed = make_packed(num_codes, num_groups, width=256 // num_groups, rows=rows)
    added = DPQ.table_bytes(packed, "pairs")
    assert DPQ.choose(packed, "auto") == ("pairs" if added <= 0.2 * packed.nbytes else "byte")
    assert DPQ.table_bytes(packed, DPQ.choose(packed, "auto")) <= 0.2 * packed.nbytes


def test_layout_auto_chooses_byte_or_pairs_by_rows(make_packed):
    assert {DPQ.choose(make_packed(16, 4, rows=rows), "auto") for rows in (10, 100_000)} == {"byte", "pairs"}


@pytest.mark.parametrize(("num_codes", "num_groups"), [(5, 8), (16, 3), (300, 4)])
def test_layout_pairs_is_refused_for_codes_that_fill_bytes(make_packed, num_codes, num_groups):
    with pytest.raises(BadInputError, match=r"tflite_table: got 'pairs'.*expected 1, 2 or 4 bits.*use auto or byte"):
        DPQ.choose(make_packed(num_codes, num_groups), "pairs")


def test_layout_unknown_is_refused_with_choices(make_packed):
    with pytest.raises(BadInputError, match="tflite_table: got 'triples', expected one of auto, byte, pairs"):
        DPQ.choose(make_packed(16, 4), "triples")
