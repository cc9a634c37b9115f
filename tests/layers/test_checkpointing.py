"""torch.utils.checkpoint: a repeated forward pass counts once and gives the gradients of a plain step."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from edge_embed.layers.dpq import DPQEmbedding

OPTIONS = {"sx": {}, "vq": {"variant": "vq"}, "vq ema": {"variant": "vq", "ema_decay": 0.5}}


class Reader(nn.Module):
    """A table and a linear layer, whose weight gets a gradient from the rows."""

    def __init__(self, table: DPQEmbedding) -> None:
        super().__init__()
        self.table, self.out = table, nn.Linear(12, 3)

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.table(ids))


class OutputLayer(nn.Module):
    """The logits of all words."""

    def __init__(self, table: DPQEmbedding) -> None:
        super().__init__()
        self.table, self.out, self.states = table, nn.Linear(20, 3), nn.Parameter(torch.randn(50, 12))

    def forward(self, ids: Tensor) -> Tensor:
        return self.out(self.table.logits(self.states[ids]))


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("model", [Reader, OutputLayer])
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_repeated_pass_counts_once(options, model, reentrant):
    plain = model(DPQEmbedding(20, 12, 5, 3, padding_idx=0, init_scale=1.0, **options))
    repeated = copy.deepcopy(plain)
    leaf = torch.zeros(1, requires_grad=True)  # reentrant checkpointing requires an input with a gradient
    for _ in range(3):
        ids = torch.randint(0, 20, (4, 6))
        plain.zero_grad()
        repeated.zero_grad()
        expected = plain(ids)
        rows = checkpoint(lambda ids, leaf: repeated(ids) + leaf, ids, leaf, use_reentrant=reentrant)
        assert torch.equal(rows, expected)
        expected.square().sum().backward()
        rows.square().sum().backward()
        for (name, parameter), other in zip(plain.named_parameters(), repeated.parameters(), strict=True):
            torch.testing.assert_close(other.grad, parameter.grad, rtol=0, atol=0, msg=name)
        torch.testing.assert_close(repeated.state_dict(), plain.state_dict(), rtol=0, atol=0)
