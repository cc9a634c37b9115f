"""Output layers on both runtimes: logits and top-k of tables that are never dense."""

import numpy as np
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.exporters.tflite.flatbuffer import load_schema
from edge_embed.packed.logits import logits
from edge_embed.packed.topk import topk
from edge_embed.targets.tflite.runtimes import TARGETS

from ...pairwise import pairwise

LAYERS = {
    "dpq": lambda n, **options: edge_embed.DPQEmbedding(n, 12, 16, 4, **options),
    "ant": lambda n, **options: edge_embed.ANTEmbedding(n, 12, 5, **options),
    "tt": lambda n, **options: edge_embed.TTEmbedding(n, 12, rank=3, **options),
    "tr": lambda n, **options: edge_embed.TREmbedding(n, 12, rank=2, **options),
}


class OutputLayer(nn.Module):
    def __init__(self, layer, k=None, bias=False):
        super().__init__()
        self.output = edge_embed.TiedOutput(layer, bias=bias)
        self.k = k
        if bias:
            nn.init.normal_(self.output.bias)

    def forward(self, hidden):
        return self.output(hidden) if self.k is None else self.output.topk(hidden, self.k)


def hidden(*leading):
    return np.random.default_rng(0).normal(size=(*leading, 12)).astype(np.float32)


@pytest.mark.parametrize(
    ("name", "n", "run_file"),
    pairwise(list(LAYERS), [7, 4096, 4097], TARGETS),  # rows are decoded in blocks of 4,096
    indirect=["run_file"],
)
def test_logits_match_packed_form_within_rounding(export_once, run_file, name, n):
    states = hidden(2, 3)
    exported = export_once((name, n), lambda: (OutputLayer(LAYERS[name](n, padding_idx=2)), torch.from_numpy(states)))
    ((found,),) = run_file(exported.path, [{"hidden": states}])
    values, magnitudes = logits(exported.table, states)
    assert found.shape == (2, 3, n)
    assert (np.abs(found - values) <= 1e-6 * magnitudes).all()
    assert not found[..., 2].any()


def test_logits_of_one_state_match_packed_form(export_once, run_file):
    exported = export_once("one state", lambda: (OutputLayer(LAYERS["dpq"](20)), torch.ones(12)))
    ((found,),) = run_file(exported.path, [{"hidden": hidden()}])
    values, magnitudes = logits(exported.table, hidden())
    assert (np.abs(found - values) <= 1e-6 * magnitudes).all()


@pytest.mark.parametrize("bias", [False, True])
def test_topk_ids_match_largest_logits(export_once, run_file, bias):
    states = hidden(4)
    exported = export_once(
        bias, lambda: (OutputLayer(LAYERS["dpq"](5000), k=9, bias=bias).eval(), torch.from_numpy(states))
    )
    ((values, ids),) = run_file(exported.path, [{"hidden": states}])
    added = exported.model.output.bias.detach().numpy() if bias else np.zeros(5000)
    every, magnitudes = logits(exported.table, states)
    every, magnitudes = every + added, magnitudes + np.abs(added)
    rounding = 1e-6 * np.take_along_axis(magnitudes, ids, 1)
    assert (np.abs(values - np.take_along_axis(every, ids, 1)) <= rounding).all()
    largest = np.sort(every)[:, :-10:-1]  # logits within rounding come in any order
    assert (np.abs(values - largest) <= rounding).all()
    assert all(len(set(row)) == 9 for row in ids.tolist())


def test_topk_of_equal_logits_gives_lowest_ids(export_once, run_file):
    exported = export_once("best", lambda: (OutputLayer(LAYERS["dpq"](5000), k=3), torch.ones(2, 12)))
    ((values, ids),) = run_file(exported.path, [{"hidden": np.zeros((2, 12), np.float32)}])
    assert not values.any()
    assert (ids == [0, 1, 2]).all()


def test_nan_states_give_nan_logits(export_once, run_file):
    exported = export_once("no numbers", lambda: (OutputLayer(LAYERS["dpq"](20)), torch.ones(2, 12)))
    states = hidden(2)
    states[0, 0] = np.nan
    ((found,),) = run_file(exported.path, [{"hidden": states}])
    assert np.isnan(found[0]).all()
    assert np.isfinite(found[1]).all()


def test_output_layer_holds_no_dense_table(export):
    """Rows are computed from an input, block by block, so that no runtime computes them once and keeps them."""
    exported = export(OutputLayer(LAYERS["dpq"](40_000)), torch.ones(2, 12))
    assert exported.path.stat().st_size < 40_000 * 12 * 4 / 6
    (graph,) = load_schema().ModelT.InitFromPackedBuf(exported.path.read_bytes(), 0).subgraphs
    from_input = set(graph.inputs)
    for operator in graph.operators:
        if from_input & set(operator.inputs):
            from_input |= set(operator.outputs)
    for number, tensor in enumerate(graph.tensors):
        if tensor.name.decode().startswith("gather"):
            assert number in from_input
            assert np.prod(tensor.shape) <= 4096 * 12


def test_draft_output_returns_ids_of_target_model(export_once, run_file):
    class Draft(nn.Module):
        def __init__(self):
            super().__init__()
            target_ids = torch.arange(300, 0, -3)
            layer = edge_embed.TiedOutput(LAYERS["dpq"](100), bias=False)
            self.output = edge_embed.DraftOutput(layer, target_ids - torch.arange(100))

        def forward(self, hidden):
            return self.output.topk(hidden, 4)

    states = hidden(2, 3)
    exported = export_once("draft", lambda: (Draft(), torch.from_numpy(states)))
    ((values, ids),) = run_file(exported.path, [{"hidden": states}])
    expected, rows = topk(exported.table, states, 4)
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(ids, 300 - 3 * rows)
