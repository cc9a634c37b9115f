"""Tiered tables on both runtimes, by operators: rows as those of the packed form, output layers within tolerance."""

import numpy as np
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.layers.tiered import TieredEmbedding
from edge_embed.packed.logits import logits
from edge_embed.packed.topk import topk
from edge_embed.targets.tflite.runtimes import TARGETS

from ...pairwise import pairwise
from ...tiered_tables import tiered

TABLES = {
    "mapped": tiered(),
    "float16": tiered(("integers", "columns", "shared rows"), value_type="float16"),
    "sorted": tiered(is_sorted=True, padding_idx=None),
    "one block": tiered(sizes=(1, 1, 9), padding_idx=10),
}


@pytest.mark.parametrize(
    ("name", "dtype", "run_file"), pairwise(list(TABLES), [np.int32, np.int64], TARGETS), indirect=["run_file"]
)
def test_tiered_rows_match_packed_form(export_once, run_file, name, dtype):
    table = TABLES[name]
    n = table.num_embeddings
    ids = np.arange(n - n % 2, dtype=dtype).reshape(2, -1)
    exported = export_once((name, dtype), lambda: (TieredEmbedding.from_packed(table), torch.from_numpy(ids)))
    every = [ids, *(np.array(other, dtype) for other in ([[n - 1]], [[0, -1]], [[0, n]]))]
    (found,), (last,), *refused = run_file(exported.path, [{"ids": each} for each in every])
    assert found.tobytes() == table.rows(ids).tobytes()
    assert last.tobytes() == table.rows([[n - 1]]).tobytes()
    assert all(isinstance(message, str) for message in refused)


class OutputLayer(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.output = edge_embed.TiedOutput(layer)

    def forward(self, hidden):
        return self.output(hidden), *self.output.topk(hidden, 4)


@pytest.mark.parametrize("name", ["mapped", "sorted"])
def test_tiered_output_layers_match_packed_form(export_once, run_file, name):
    pytest.importorskip("litert_torch", reason="the extra edge-embed[tflite-models] is not installed")
    table = TABLES[name]
    states = np.random.default_rng(0).normal(size=(2, table.embedding_dim)).astype(np.float32)
    model = OutputLayer(TieredEmbedding.from_packed(table))
    exported = export_once((name, "output layer"), lambda: (model, torch.from_numpy(states)))
    ((scores, top, ids),) = run_file(exported.path, [{"hidden": states}])
    values, magnitudes = logits(table, states)
    assert (np.abs(scores - values) <= 1e-6 * magnitudes).all()
    np.testing.assert_array_equal(ids, topk(table, states, 4)[1])
    np.testing.assert_array_equal(top, np.take_along_axis(scores, ids, 1))


def test_tiered_file_holds_tensors_with_elements_unchanged(export_once):
    exported = export_once("mapped", lambda: (TieredEmbedding.from_packed(TABLES["mapped"]),))
    for name, array in exported.table.tensors().items():
        if array.size:
            assert exported.content.tensors[f"embedding.{name}"].tobytes() == array.tobytes()
        else:
            assert f"embedding.{name}" not in exported.content.tensors
