"""`SharedDPQEmbedding`: tiers of fewer codes over the codebooks of another tier."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.layers.regularization import regularization_loss

DIM, GROUPS, CODES, SIZES = 8, 4, (32, 8, 2), (30, 60, 100)
EVERY = torch.arange(sum(SIZES))


def tiers(**options) -> list[edge_embed.DPQEmbedding]:
    torch.manual_seed(0)
    owner = edge_embed.DPQEmbedding(SIZES[0], DIM, CODES[0], GROUPS, **{"variant": "vq"} | options)
    return [owner, *(edge_embed.SharedDPQEmbedding(owner, n, k) for n, k in zip(SIZES[1:], CODES[1:], strict=True))]


def table(**options) -> edge_embed.TieredEmbedding:
    return edge_embed.TieredEmbedding(tiers(**options), padding_idx=0)


VARIANTS = [
    {"distance_norm": False},
    {"distance_norm": "per_group"},
    {"variant": "sx", "distance_norm": True},
    {"variant": "sx", "metric": "cosine", "distance_norm": False, "share_subspaces": True},
]


def nearest(query: Tensor, value: Tensor) -> Tensor:
    """Return the rows of the nearest centroids of each group, by all distances."""
    parts = query.view(len(query), GROUPS, 1, -1)
    codes = (parts - value).square().sum(-1).argmin(-1)  # [n, D]
    return torch.cat([value[group, codes[:, group]] for group in range(GROUPS)], 1)


@pytest.mark.parametrize("training", [True, False])
def test_rows_are_the_nearest_of_the_first_codes(training: bool) -> None:
    owner, *others = tiers(distance_norm=False)
    for layer, codes in zip(others, CODES[1:], strict=True):
        layer.train(training)
        expected = nearest(layer.query.detach(), owner.value[:, :codes].detach())
        torch.testing.assert_close(layer(torch.arange(layer.num_embeddings)), expected, rtol=0, atol=1e-7)


@pytest.mark.parametrize("options", VARIANTS)
def test_trained_rows_are_those_of_file_and_frozen_state(options: dict[str, object], tmp_path: Path) -> None:
    layer = table(**options)
    optimizer = torch.optim.Adam(layer.parameters(), lr=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        ((layer(EVERY) - torch.arange(DIM)).square().mean() + regularization_loss(layer)).backward()
        optimizer.step()
    layer.eval()
    rows = layer(EVERY).detach()
    packed = layer.to_packed()
    packed.check()
    np.testing.assert_array_equal(packed.rows(EVERY.numpy()), rows.numpy())
    assert [tier.num_codes for tier in packed.tiers] == list(CODES)
    edge_embed.export(nn.Sequential(layer), "onnx", tmp_path / "m.onnx", torch.arange(4))
    session = edge_embed.create_session(tmp_path / "m.onnx")
    (found,) = session.run(None, {session.get_inputs()[0].name: EVERY.numpy()})
    np.testing.assert_array_equal(found, rows.numpy())
    torch.testing.assert_close(layer.freeze()(EVERY), rows, rtol=0, atol=0)


def test_owner_learns_from_all_tiers() -> None:
    layers = tiers(distance_norm=False)
    for layer in layers:
        layer(torch.arange(layer.num_embeddings)).sum().backward()
        layer.regularization_loss(reduction="sum").backward()
    found = layers[0].value.grad.clone()
    expected = torch.zeros_like(found)
    value = layers[0].value.detach()
    for layer, codes in zip(layers, CODES, strict=True):
        parts = layer.query.detach().view(-1, GROUPS, DIM // GROUPS)
        chosen = (parts.unsqueeze(2) - value[:, :codes]).square().sum(-1).argmin(-1)  # [n, D]
        for group in range(GROUPS):
            gradient = 2 * (value[group, chosen[:, group]] - parts[:, group])
            expected[group].index_add_(0, chosen[:, group], gradient)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_parameters_are_listed_once() -> None:
    names = [name for name, _ in table().named_parameters(remove_duplicate=False)]
    assert names == ["tiers.0.query", "tiers.0.value", "tiers.1.query", "tiers.2.query"]


def test_copies_share_their_own_codebooks() -> None:
    layer = table()
    copied = copy.deepcopy(layer)
    assert copied.tiers[2].owner is copied.tiers[0]
    with torch.no_grad():
        copied.tiers[0].value.add_(1)
    assert not torch.equal(copied.tiers[1].value, layer.tiers[1].value)


def test_checkpoint_restores_rows(tmp_path: Path) -> None:
    layer, other = table().eval(), table(init_scale=0.2).eval()
    torch.save(layer.state_dict(), tmp_path / "m.pt")
    assert not torch.equal(other(EVERY), layer(EVERY))
    other.load_state_dict(torch.load(tmp_path / "m.pt", weights_only=True))
    assert torch.equal(other(EVERY), layer(EVERY))


def test_functional_call_uses_given_codebooks() -> None:
    layer = table(distance_norm=False).eval()
    given = dict(layer.named_parameters()) | {"tiers.0.value": layer.tiers[0].value.detach() + 1}
    found = torch.func.functional_call(layer, given, (EVERY,))
    with torch.no_grad():
        layer.tiers[0].value.add_(1)
    assert torch.equal(found, layer(EVERY))


def test_dtype_and_temperature_are_those_of_the_owner() -> None:
    layer = table(variant="sx").double()
    assert [tier.value.dtype for tier in layer.tiers] == [torch.float64] * 3
    layer.tiers[0].temperature = 3.0
    assert layer.tiers[2].temperature == 3
    layer.tiers[1].temperature = 2.0
    assert layer.tiers[0].temperature == 2


def test_wrong_owners_are_refused() -> None:
    owner, shared, _ = tiers()
    for wrong, said in (
        (shared, "got a SharedDPQEmbedding, expected a trainable DPQEmbedding"),
        (nn.Embedding(3, DIM), "got a Embedding"),
        (copy.deepcopy(owner).freeze(), "got a frozen layer"),
        (edge_embed.DPQEmbedding(9, DIM, 4, 2, variant="vq", ema_decay=0.9), "got a layer with ema_decay"),
    ):
        with pytest.raises(BadInputError, match=said):
            edge_embed.SharedDPQEmbedding(wrong, 5, 2)
    for codes, said in ((33, "got 33, expected 2 to the 32 of the owner"), (1, "got 1,"), (2.5, "num_codes")):
        with pytest.raises(BadInputError, match=said):
            edge_embed.SharedDPQEmbedding(owner, 5, codes)
    with pytest.raises(NotImplementedError, match="freeze the TieredEmbedding"):
        shared.freeze()


def test_owner_must_be_a_tier_of_the_same_table() -> None:
    _, shared, _ = tiers()
    with pytest.raises(BadInputError, match="tier 2: got codebooks of another table, expected those of another tier"):
        edge_embed.TieredEmbedding([nn.Embedding(3, DIM), edge_embed.IntegerEmbedding(3, DIM), shared])
