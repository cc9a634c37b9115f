"""Tiered layers: the packed form in every use, bit by bit, without trainable parameters."""

import copy

import numpy as np
import pytest
import torch

import edge_embed
from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.layers.bag import TieredEmbeddingBag
from edge_embed.layers.frozen import frozen_layer
from edge_embed.layers.tiered import TieredEmbedding
from edge_embed.packed import PackedTiered
from edge_embed.program.archive import Archive
from edge_embed.program.module_file import load_module

from ..tiered_tables import tier, tiered

PADDING = 3
TABLES = {
    "mapped": tiered(),
    "sorted": tiered(is_sorted=True),
    "float16": tiered(("columns", "groups", "shared rows"), value_type="float16"),
}
IDS = torch.tensor([[4, PADDING, 4, 0], [599, 257, 1, 255]])


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest) -> PackedTiered:
    return TABLES[request.param]


def test_tiered_rows_match_packed_form_bit_by_bit(table):
    layer = frozen_layer(table)
    assert type(layer) is TieredEmbedding
    for ids in (IDS, IDS.int(), torch.tensor(4), torch.zeros(0, 2, dtype=torch.int64), torch.arange(600)):
        found = layer(ids)
        assert found.dtype == torch.float32
        assert found.numpy().tobytes() == table.rows(ids.numpy()).tobytes()
    for wrong in (-1, 600):
        with pytest.raises(IdOutOfRangeError, match=f"id {wrong} is out of range: expected 0 to 599"):
            layer(torch.tensor([wrong]))


def test_tiered_output_layers_and_bags_match_dense_rows(table):
    layer, dense = TieredEmbedding(table), torch.from_numpy(table.rows(np.arange(600)))
    hidden, bias = torch.randn(5, table.embedding_dim), torch.randn(600)
    torch.testing.assert_close(layer.logits(hidden), hidden @ dense.T)
    found, expected = edge_embed.TiedOutput(layer, bias).topk(hidden, 4), (hidden @ dense.T + bias).topk(4)
    torch.testing.assert_close(found.values, expected.values)
    assert torch.equal(found.ids, expected.indices)
    for mode in ("sum", "mean", "max"):
        bags = TieredEmbeddingBag(table, mode=mode)(IDS)
        torch.testing.assert_close(bags, torch.nn.functional.embedding_bag(IDS, dense, mode=mode, padding_idx=PADDING))


def test_tiered_layer_has_no_parameters_and_keeps_rows_in_state_dict(table):
    layer = TieredEmbedding(table).train()
    assert layer.frozen
    assert not list(layer.parameters())
    again = layer.freeze().to_packed()
    assert again.shape == table.shape
    for name, array in table.tensors().items():
        assert again.tensors()[name].tobytes() == array.tobytes()
    other = TieredEmbedding(table)
    other.tier_2_codes.zero_()
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(IDS), layer(IDS))


def test_half_tiered_layer_keeps_stored_types(table):
    layer = TieredEmbedding(table)
    half = copy.deepcopy(layer).half()
    assert torch.equal(half(IDS), layer(IDS).half())
    assert {name: array.dtype for name, array in half.to_packed().tensors().items()} == {
        name: array.dtype for name, array in table.tensors().items()
    }


def test_tiered_layer_saved_by_torch_is_loaded_without_its_code(tmp_path):
    model = torch.nn.Sequential(TieredEmbedding(TABLES["mapped"]), torch.nn.Linear(6, 2))
    torch.save(model, tmp_path / "m.pt")
    assert torch.equal(load_module(Archive(tmp_path / "m.pt"))(IDS), model(IDS))


def test_tiered_layer_compiles_to_one_graph():
    layer = TieredEmbedding(TABLES["mapped"])
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(IDS), layer(IDS))


def test_tiered_layer_accepts_tiered_tables_only():
    with pytest.raises(BadInputError, match="packed: got a PackedDPQ, expected a PackedTiered"):
        TieredEmbedding(tier("groups", 9, 6))
