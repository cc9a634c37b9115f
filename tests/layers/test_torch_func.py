"""Layers under the transforms of ``torch.func``: many batches at once, and the gradient of each sample."""

import pytest
import torch

import edge_embed
from edge_embed.errors import IdOutOfRangeError

IDS = torch.tensor([[3, 1, 3, 0], [9, 11, 9, 3]])  # 0 is padding
LAYERS = {
    "dpq": lambda: edge_embed.DPQEmbedding(12, 8, 4, 4, padding_idx=0, dtype=torch.float64),
    "ant": lambda: edge_embed.ANTEmbedding(12, 8, num_anchors=5, padding_idx=0, dtype=torch.float64),
    "tt": lambda: edge_embed.TTEmbedding(12, 8, rank=3, padding_idx=0, dtype=torch.float64),
    "tr": lambda: edge_embed.TREmbedding(12, 8, rank=2, padding_idx=0, dtype=torch.float64),
}


@pytest.mark.parametrize("name", LAYERS)
def test_vmap_in_eval_mode_gives_rows(name):
    layer = LAYERS[name]().eval()
    torch.testing.assert_close(torch.vmap(layer)(IDS), layer(IDS), rtol=1e-12, atol=1e-12)
    nested = torch.vmap(torch.vmap(layer))(IDS.reshape(2, 2, 2))
    torch.testing.assert_close(nested.reshape(2, 4, 8), layer(IDS), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("wrong", [-1, 12])
@pytest.mark.parametrize("name", LAYERS)
def test_vmap_refuses_ids_out_of_range(name, wrong):
    with pytest.raises(IdOutOfRangeError, match=f"id {wrong} is out of range: expected 0 to 11"):
        torch.vmap(LAYERS[name]().eval())(torch.tensor([[1, 2], [wrong, 3]]))


@pytest.mark.parametrize("name", ["ant", "tt", "tr"])
def test_vmap_gradients_match_those_of_single_samples(name):
    layer = LAYERS[name]()
    weights = {name: weight.detach() for name, weight in layer.named_parameters()}

    def loss(weights: dict[str, torch.Tensor], ids: torch.Tensor) -> torch.Tensor:
        return torch.func.functional_call(layer, weights, (ids,)).square().sum()

    found = torch.vmap(torch.func.grad(loss), in_dims=(None, 0))(weights, IDS)
    for sample, ids in enumerate(IDS):
        layer.zero_grad()
        layer(ids).square().sum().backward()
        for key, weight in layer.named_parameters():
            torch.testing.assert_close(found[key][sample], weight.grad, rtol=1e-12, atol=1e-12)
