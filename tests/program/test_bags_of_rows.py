"""Bags of one row of ids each share the batch of the other inputs."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

import edge_embed
from edge_embed.workflow import load


class Clicks(nn.Module):
    """A model that looks one item up and reduces a history of items."""

    def __init__(self, **bag) -> None:
        super().__init__()
        self.item = nn.Embedding(20, 4)
        self.history = nn.EmbeddingBag(20, 4, **bag)

    def forward(self, item: Tensor, history: Tensor) -> Tensor:
        return torch.cat([self.item(item), self.history(history)], -1)


class Weighted(Clicks):
    """The same model by the function of torch, with a weight for each id."""

    def forward(self, item: Tensor, history: Tensor) -> Tensor:
        weights = history.float().sqrt()
        bags = functional.embedding_bag(history, self.history.weight, mode="sum", per_sample_weights=weights)
        return self.item(item) + bags


@pytest.mark.parametrize(
    "model",
    [
        Clicks(mode="sum"),
        Clicks(mode="max", padding_idx=0),
        Clicks(mode="mean", include_last_offset=True),
        Weighted(),
    ],
    ids=["sum", "padding", "last offset", "weights"],
)
def test_bags_of_matrix_have_batch_of_other_inputs(model: nn.Module, tmp_path) -> None:
    ids = torch.randint(20, (3, 5))
    program = load(edge_embed.save(model, tmp_path / "model.pt", {"item": ids[:, 0], "history": ids}))
    assert [declared.shape for declared in program.inputs] == [("batch",), ("batch", "sequence")]
    for batch, length in ((1, 1), (4, 7), (0, 2), (3, 5)):
        given = torch.randint(20, (batch, length))
        item = torch.randint(20, (batch,))
        assert torch.equal(program.module(item, given)[0], model(item, given))


def test_bags_with_offsets_keep_their_own_number(tmp_path) -> None:
    bag = nn.EmbeddingBag(20, 4, mode="sum")
    ids, offsets = torch.arange(6), torch.tensor([0, 2, 2])
    program = load(edge_embed.save(bag, tmp_path / "bag.pt", (ids, offsets)))
    assert torch.equal(program.module(ids, offsets[:2])[0], bag(ids, offsets[:2]))


def test_torch_function_is_restored_after_failure(tmp_path) -> None:
    before = functional.embedding_bag
    with pytest.raises(edge_embed.BadInputError):
        edge_embed.save(nn.EmbeddingBag(20, 4), tmp_path / "bag.pt", torch.zeros(2, 3))
    assert functional.embedding_bag is before
