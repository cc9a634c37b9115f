"""LiteRT and tflite-runtime run every operator that an export can contain, with the results of the oracle."""

import numpy as np
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.exporters.tflite.ant import ANT
from edge_embed.exporters.tflite.graph import OPERATORS, Graph
from edge_embed.packed.bag import bag


class Best(nn.Module):
    def __init__(self):
        super().__init__()
        self.output = edge_embed.TiedOutput(edge_embed.DPQEmbedding(20, 12, 16, 4))

    def forward(self, hidden):
        return self.output.topk(hidden, 3)


IDS = [np.array([[1]]), np.arange(16).reshape(4, 4), np.array([[0, 19]])]
BAD = [np.array([[-1]]), np.array([[20]]), np.array([[2**32]])]


def tables():
    for value_type in ("float32", "float16", "int8"):
        for num_codes in (5, 16, 200):
            layer = edge_embed.DPQEmbedding(20, 12, num_codes, 4, padding_idx=0).eval()
            layer.freeze(value_type=value_type)
            yield f"dpq {num_codes} {value_type}", layer
    yield "ant", edge_embed.ANTEmbedding(20, 12, 5, padding_idx=0)
    yield "ant float16", edge_embed.ANTEmbedding(20, 12, 5).half()
    yield "tt", edge_embed.TTEmbedding(20, 12, rank=3, padding_idx=0)
    yield "tr", edge_embed.TREmbedding(20, 12, rank=2, padding_idx=0)


LAYERS = dict(tables())
MODES = ("sum", "mean", "max")


def bag_and_example(mode):
    layer = edge_embed.DPQEmbeddingBag(20, 12, 16, 4, mode=mode, padding_idx=0)
    return layer, (torch.tensor([1, 2, 3]), torch.tensor([0, 2]))


@pytest.mark.parametrize("name", LAYERS)
def test_rows_on_both_runtimes_match_packed_form(export_once, run_file, name):
    exported = export_once(name, lambda: (LAYERS[name],))
    *found, negative, beyond, wrapped = run_file(exported.path, [{"ids": ids} for ids in (*IDS, *BAD)])
    for ids, (rows,) in zip(IDS, found, strict=True):
        exact = exported.table.rows_float64(ids)
        assert rows.shape == exact.shape
        if exported.table.method == "dpq":
            assert (rows == exact).all()
        else:
            allowed = (1e-6 if exported.table.row_type == "float32" else 2e-3) * exported.table.magnitudes(ids)
            assert (np.abs(rows - exact) <= allowed).all()
    for refusal in (negative, beyond, wrapped):
        assert isinstance(refusal, str)
        assert "gather" in refusal.lower()


def test_bags_of_one_per_row_match_packed_form_on_both_runtimes(export_once, run_file):
    exported = export_once("bag of a row", lambda: (edge_embed.DPQEmbeddingBag(20, 12, 16, 4, mode="sum"),))
    for ids, (bags,) in zip(IDS, run_file(exported.path, [{"ids": ids} for ids in IDS]), strict=True):
        values, magnitudes = bag(exported.table, ids.reshape(-1), ids.shape[1] * np.arange(len(ids) + 1), "sum")
        assert (np.abs(bags - values) <= 1e-6 * magnitudes).all()


@pytest.mark.parametrize("mode", MODES)
def test_bags_on_both_runtimes_match_packed_form(export_once, run_file, mode):
    exported = export_once(mode, lambda: bag_and_example(mode))
    ids, offsets = np.arange(12) % 7, np.array([0, 3, 3])
    (bags,), refusal = run_file(exported.path, [{"ids": ids, "offsets": at} for at in (offsets, offsets + 1)])
    values, magnitudes = bag(exported.table, ids, [*offsets, 12], mode)
    assert (np.abs(bags - values) <= 1e-6 * magnitudes).all()
    assert "gather" in refusal.lower()


def test_ant_sparse_layout_matches_packed_form_on_both_runtimes(run_file, tmp_path, export_once):
    packed = export_once("ant", lambda: (LAYERS["ant"],)).table
    graph = Graph()
    result = ANT.rows(graph, "table", packed, graph.input("ids", "int32", (-1,)), "csr")
    graph.write(tmp_path / "model.tflite", {"rows": result}, {})
    ids = np.array([3, 3, 19, 0], np.int32)
    ((rows,),) = run_file(tmp_path / "model.tflite", [{"ids": ids}])
    assert (np.abs(rows - packed.rows_float64(ids)) <= 1e-6 * packed.magnitudes(ids)).all()


def test_ids_beyond_int32_are_refused(run_file, tmp_path):
    graph = Graph()
    graph.write(tmp_path / "model.tflite", {"narrow": graph.narrowed(graph.input("wide", "int64", (-1,)))}, {})
    fitting = np.array([-(2**31), -1, 0, 7, 2**31 - 1])
    bad = (-(2**63), -(2**32) - 5, -(2**31) - 1, 2**31, 2**32, 2**32 + 5, 2**63 - 1)
    feeds = [{"wide": fitting}, *({"wide": np.array([1, one, 2])} for one in bad)]
    (narrow,), *refusals = run_file(tmp_path / "model.tflite", feeds)
    assert narrow.dtype == np.int32
    assert (narrow == fitting).all()
    assert all("gather" in refusal.lower() for refusal in refusals)


def test_exported_files_contain_every_operator_of_an_export(export, export_once):
    """Every operator of the list runs on both runtimes in the tests above."""
    found = set()
    for name, layer in LAYERS.items():
        found |= export_once(name, lambda layer=layer: (layer,)).content.operators.keys()
    for mode in MODES:
        found |= export_once(mode, lambda mode=mode: bag_and_example(mode)).content.operators.keys()
    found |= export(edge_embed.DPQEmbeddingBag(20, 12, 16, 4)).content.operators.keys()
    # Files of output layers: tests/exporters/tflite/test_output_layers.py.
    found |= export(Best(), torch.ones(2, 12)).content.operators.keys()
    assert found == OPERATORS.keys() - {"QUANTIZE", "TRANSPOSE", "MINIMUM"}  # in files of other tools; in checks of ids
