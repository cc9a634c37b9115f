"""TT and TR tables with a row order: every use on both runtimes, by operators and with the delegate."""

import numpy as np
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.exporters.tflite.names import DELEGATE_KEY
from edge_embed.packed.bag import bag
from edge_embed.packed.logits import logits
from edge_embed.packed.topk import topk

N, D, PADDING = 30, 12, 3
ORDER = torch.tensor([2, 1, 0, 3, *range(29, 3, -1)])
LAYERS = {
    "tt": lambda **options: edge_embed.TTEmbedding(N, D, 3, padding_idx=PADDING, row_order=ORDER, **options),
    "tr": lambda **options: edge_embed.TREmbedding(N, D, 2, padding_idx=PADDING, row_order=ORDER, **options),
}
IDS = np.array([[0, 3, 29], [7, 0, 1]])


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_rows_of_ordered_table_match_packed_form(export_once, run_file, name, dtype):
    exported = export_once((name, dtype), lambda: (LAYERS[name](), torch.from_numpy(IDS.astype(dtype))))
    feeds = [{"ids": IDS.astype(dtype)}, *({"ids": np.array([[0, wrong]], dtype)} for wrong in (-1, N))]
    (found,), *refused = run_file(exported.path, feeds)
    assert (np.abs(found - exported.table.rows_float64(IDS)) <= 1e-6 * exported.table.magnitudes(IDS)).all()
    assert not found[0, 1].any()
    assert all(isinstance(message, str) for message in refused)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_ordered_table_match_packed_form(export_once, run_file, mode):
    def make():
        return edge_embed.TTEmbeddingBag(N, D, 3, padding_idx=PADDING, row_order=ORDER, mode=mode), torch.from_numpy(
            IDS
        )

    exported = export_once(mode, make)
    ((found,),) = run_file(exported.path, [{"ids": IDS}])
    values, magnitudes = bag(exported.table, IDS.reshape(-1), [0, 3, 6], mode)
    assert (np.abs(found - values) <= 1e-6 * magnitudes).all()


class OutputLayer(nn.Module):
    def __init__(self, layer, bias):
        super().__init__()
        self.output = edge_embed.TiedOutput(layer, bias=bias)
        if bias:
            nn.init.normal_(self.output.bias)

    def forward(self, hidden):
        return self.output(hidden), *self.output.topk(hidden, 4)


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("bias", [False, True])
def test_output_layers_of_ordered_table_match_packed_form(export_once, run_file, name, bias):
    pytest.importorskip("litert_torch", reason="the extra edge-embed[tflite-models] is not installed")
    states = np.random.default_rng(0).normal(size=(2, D)).astype(np.float32)
    exported = export_once((name, bias), lambda: (OutputLayer(LAYERS[name](), bias), torch.from_numpy(states)))
    ((scores, top, ids),) = run_file(exported.path, [{"hidden": states}])
    added = exported.model.output.bias.detach().numpy() if bias else np.zeros(N, np.float32)
    values, magnitudes = logits(exported.table, states)
    assert (np.abs(scores - values - added) <= 1e-6 * (magnitudes + np.abs(added))).all()
    np.testing.assert_array_equal(ids, topk(exported.table, states, 4, added)[1])
    np.testing.assert_array_equal(top, np.take_along_axis(scores, ids, 1))


def test_topk_of_equal_logits_gives_lowest_ids(export_once, run_file):
    """Rows have another order than ids: the delegate computes logits, and top-k follows it."""

    class Best(nn.Module):
        def __init__(self):
            super().__init__()
            self.output = edge_embed.TiedOutput(LAYERS["tt"]())

        def forward(self, hidden):
            return self.output.topk(hidden, 5)

    exported = export_once("best", lambda: (Best(), torch.ones(2, D)))
    ((values, ids),) = run_file(exported.path, [{"hidden": np.zeros((2, D), np.float32)}])
    assert not values.any()
    np.testing.assert_array_equal(ids, [range(5)] * 2)


def test_delegate_takes_plain_use_behind_gather(export_once):
    line = export_once("tt", lambda: (LAYERS["tt"](),)).content.metadata[DELEGATE_KEY].splitlines()[1]
    assert line.startswith("rows tt ids=gather_")


def test_file_holds_row_order_unchanged(export_once):
    """The order takes 4 bytes a row in the file too."""
    exported = export_once("tt", lambda: (LAYERS["tt"](),))
    stored = exported.content.tensors["embedding.row_order"]
    np.testing.assert_array_equal(stored.view(np.int32), exported.table.tensors()["row_order"])
