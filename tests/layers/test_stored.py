"""Layers over stored tables, with row scales or in tiers: the packed form in every use, without parameters."""

import copy
from dataclasses import replace

import numpy as np
import pytest
import torch

import edge_embed
from edge_embed.errors import BadInputError, IdOutOfRangeError
from edge_embed.layers.bag import bag_of
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.layers.frozen import frozen_layer
from edge_embed.layers.scaled_dpq import ScaledDPQEmbedding
from edge_embed.layers.tiered import TieredEmbedding
from edge_embed.packed import PackedDPQ, PackedTable, PackedTiered
from edge_embed.packed.dpq_values import quantized
from edge_embed.program.archive import Archive
from edge_embed.program.module_file import load_module

from ..tiered_tables import tiered

N, PADDING = 300, 3
IDS = torch.tensor([[4, PADDING, 4, 0], [N - 1, 257, 1, 255]])


def packed(value_type: str = "float32", scales: bool = True, unused: int = 1) -> PackedDPQ:
    random = np.random.default_rng(0)
    values = random.standard_normal((3, 5, 4))
    stored, of_values = quantized(values) if value_type == "int8" else (values.astype(value_type), None)
    table = PackedDPQ.from_codes(random.integers(0, 5, (N, 3)), stored, PADDING, of_values)
    codes = random.integers(0, 6, N, np.uint8)
    codes[PADDING] = 0
    rows_scaled = {"row_scale_codes": codes, "row_scales": random.uniform(0, 2, 6).astype(np.float32)} if scales else {}
    return replace(table, unused_columns=unused, **rows_scaled)


SIZES = (20, 100, N - 120)
TABLES = {
    "both": packed(),
    "float16": packed("float16"),
    "int8": packed("int8", unused=0),
    "narrow": packed(scales=False),
    "narrow float16": packed("float16", scales=False),
    "tiers": tiered(sizes=SIZES),
    "sorted tiers": tiered(sizes=SIZES, is_sorted=True),
    "float16 tiers": tiered(("columns", "groups", "shared rows"), SIZES, value_type="float16"),
}


@pytest.fixture(params=TABLES)
def table(request: pytest.FixtureRequest) -> PackedTable:
    return TABLES[request.param]


def test_rows_match_packed_form_bit_by_bit(table):
    layer = frozen_layer(table)
    assert type(layer) is (TieredEmbedding if isinstance(table, PackedTiered) else ScaledDPQEmbedding)
    for ids in (IDS, IDS.int(), torch.tensor(4), torch.zeros(0, 2, dtype=torch.int64), torch.arange(N)):
        expected = table.rows(ids.numpy())
        found = layer(ids)
        assert found.dtype == torch.float32  # the layer's type, for any stored type
        assert found.numpy().tobytes() == expected.astype(np.float32).tobytes()
    assert layer(torch.tensor(PADDING)).numpy().tobytes() == bytes(4 * table.embedding_dim)
    for wrong in (-1, N):
        with pytest.raises(IdOutOfRangeError, match=f"id {wrong} is out of range: expected 0 to {N - 1}"):
            layer(torch.tensor([wrong]))


def test_output_layers_and_bags_match_dense_rows(table):
    layer, dense = frozen_layer(table), torch.from_numpy(table.rows(np.arange(N))).float()
    hidden, bias = torch.randn(5, table.embedding_dim), torch.randn(N)
    torch.testing.assert_close(layer.logits(hidden), hidden @ dense.T)
    found, expected = edge_embed.TiedOutput(layer, bias).topk(hidden, 4), (hidden @ dense.T + bias).topk(4)
    torch.testing.assert_close(found.values, expected.values)
    assert torch.equal(found.ids, expected.indices)
    for mode in ("sum", "mean", "max"):
        bags = bag_of(frozen_layer(table), mode)(IDS)
        expected = torch.nn.functional.embedding_bag(IDS, dense, mode=mode, padding_idx=PADDING)
        rounding = 2.0**-11 if table.row_type == "float16" else 1e-5  # results are rounded to the type of rows
        torch.testing.assert_close(bags, expected, atol=1e-6, rtol=rounding)


def test_layer_has_no_parameters_and_keeps_rows_in_state_dict(table):
    layer = frozen_layer(table).train()
    assert layer.frozen
    assert not list(layer.parameters())
    again = layer.freeze().to_packed()
    assert again.shape == table.shape
    for name, array in table.tensors().items():
        assert again.tensors()[name].tobytes() == array.tobytes()
    other = frozen_layer(table)
    for buffer in other.buffers():
        buffer.zero_()
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(IDS), layer(IDS))


def test_half_gives_float16_rows_and_keeps_stored_types(table):
    layer = frozen_layer(table)
    half = copy.deepcopy(layer).half()
    assert half(IDS).dtype == torch.float16
    assert torch.equal(half(IDS), layer(IDS).half())
    assert {name: array.dtype for name, array in half.to_packed().tensors().items()} == {
        name: array.dtype for name, array in table.tensors().items()
    }


def test_layer_compiles_to_one_graph(table):
    torch._dynamo.reset()  # each table is compiled again
    layer = frozen_layer(table)
    assert torch.equal(torch.compile(layer, fullgraph=True, backend="eager")(IDS), layer(IDS))


@pytest.mark.parametrize("name", ["both", "tiers"])
def test_layer_saved_by_torch_is_loaded_without_its_code(tmp_path, name):
    model = torch.nn.Sequential(frozen_layer(TABLES[name]), torch.nn.Linear(TABLES[name].embedding_dim, 2))
    torch.save(model, tmp_path / "m.pt")
    assert torch.equal(load_module(Archive(tmp_path / "m.pt"))(IDS), model(IDS))


def test_layer_accepts_tables_of_its_kind_only():
    with pytest.raises(BadInputError, match=r"row scales .*; use edge_embed\S*ScaledDPQEmbedding"):
        DPQEmbedding.from_packed(TABLES["both"])
    with pytest.raises(BadInputError, match="packed: got a int, expected a PackedDPQ"):
        ScaledDPQEmbedding(3)
    with pytest.raises(BadInputError, match="packed: got a PackedDPQ, expected a PackedTiered"):
        TieredEmbedding.from_packed(TABLES["both"])
