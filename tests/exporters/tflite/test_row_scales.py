"""DPQ tables with row scales or with a narrower last group: every use on both runtimes, by operators."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.exporters.tflite.names import DELEGATE_KEY
from edge_embed.layers.bag import ScaledDPQEmbeddingBag
from edge_embed.layers.scaled_dpq import ScaledDPQEmbedding
from edge_embed.packed.bag import bag
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_values import quantized
from edge_embed.packed.logits import logits
from edge_embed.packed.topk import topk
from edge_embed.targets.tflite.runtimes import TARGETS

from ...pairwise import pairwise

N, PADDING = 30, 3
IDS = np.array([[0, 3, 29], [7, 0, 1]])


def packed(num_codes: int, value_type: str, scales: bool = True, unused: int = 1) -> PackedDPQ:
    random = np.random.default_rng(0)
    values = random.standard_normal((4, num_codes, 3))
    stored, of_values = quantized(values) if value_type == "int8" else (values.astype(value_type), None)
    table = PackedDPQ.from_codes(random.integers(0, num_codes, (N, 4)), stored, PADDING, of_values)
    codes = random.integers(0, 200, N, np.uint8)
    codes[PADDING] = 0
    rows = {"row_scale_codes": codes, "row_scales": random.uniform(0, 2, 200).astype(np.float32)} if scales else {}
    return replace(table, unused_columns=unused, **rows)


TABLES = {  # codes of a byte each, pairs of a byte, across bytes
    "direct": packed(256, "float32"),
    "pairs": packed(16, "float32", unused=0),
    "byte": packed(7, "int8", unused=2),
    "float16": packed(200, "float16"),
    "narrow": packed(16, "float32", scales=False),
    "narrow float16": packed(256, "float16", scales=False),
}


@pytest.mark.parametrize(
    ("name", "dtype", "run_file"), pairwise(list(TABLES), [np.int32, np.int64], TARGETS), indirect=["run_file"]
)
def test_rows_with_scales_match_packed_form(export_once, run_file, name, dtype):
    table = TABLES[name]
    exported = export_once((name, dtype), lambda: (ScaledDPQEmbedding(table), torch.from_numpy(IDS.astype(dtype))))
    feeds = [{"ids": IDS.astype(dtype)}, *({"ids": np.array([[0, wrong]], dtype)} for wrong in (-1, N))]
    (found,), *refused = run_file(exported.path, feeds)
    assert found.astype(np.float32).tobytes() == table.rows(IDS).astype(np.float32).tobytes()
    assert all(isinstance(message, str) for message in refused)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_with_scales_match_packed_form(export_once, run_file, mode):
    table = TABLES["direct"]
    exported = export_once(mode, lambda: (ScaledDPQEmbeddingBag(table, mode=mode), torch.from_numpy(IDS)))
    ((found,),) = run_file(exported.path, [{"ids": IDS}])
    values, magnitudes = bag(table, IDS.reshape(-1), [0, 3, 6], mode)
    assert (np.abs(found - values) <= 1e-6 * magnitudes).all()


class OutputLayer(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.output = edge_embed.TiedOutput(layer)

    def forward(self, hidden):
        return self.output(hidden), *self.output.topk(hidden, 4)


@pytest.mark.parametrize("name", TABLES)
def test_output_layers_with_scales_match_packed_form(export_once, run_file, name):
    pytest.importorskip("litert_torch", reason="the extra edge-embed[tflite-models] is not installed")
    table = TABLES[name]
    states = np.random.default_rng(0).normal(size=(2, table.embedding_dim)).astype(np.float32)
    exported = export_once(
        (name, "output layer"), lambda: (OutputLayer(ScaledDPQEmbedding(table)), torch.from_numpy(states))
    )
    ((scores, top, ids),) = run_file(exported.path, [{"hidden": states}])
    values, magnitudes = logits(table, states)
    assert (np.abs(scores - values) <= 1e-6 * magnitudes).all()
    np.testing.assert_array_equal(ids, topk(table, states, 4)[1])
    np.testing.assert_array_equal(top, np.take_along_axis(scores, ids, 1))


def test_delegate_gets_tables_with_scales_but_no_float16_rows(export_once):
    content = export_once("direct", lambda: (ScaledDPQEmbedding(TABLES["direct"]),)).content
    (line,) = content.metadata[DELEGATE_KEY].splitlines()[1:]
    assert line.startswith("rows dpq_scaled ")
    assert {"row_scale_codes=embedding.row_scale_codes", "unused_columns=1"} <= set(line.split())
    content = export_once("narrow", lambda: (ScaledDPQEmbedding(TABLES["narrow float16"]),)).content
    assert content.metadata[DELEGATE_KEY].splitlines()[1:] == []


def test_file_holds_tensors_unchanged(export_once):
    exported = export_once("direct", lambda: (ScaledDPQEmbedding(TABLES["direct"]),))
    for name in ("row_scale_codes", "row_scales"):
        stored = exported.content.tensors[f"embedding.{name}"]
        np.testing.assert_array_equal(stored.view(exported.table.tensors()[name].dtype), exported.table.tensors()[name])
