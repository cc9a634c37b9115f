"""A task of a few numbers, with candidates of two methods."""

from collections.abc import Iterator, Mapping

import torch
from tables import MakeTable
from torch import Tensor, nn
from training import Batch, Part, Recipe, Task

import edge_embed

N, DIM = 40, 8


class Numbers(nn.Module):
    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table = table

    def forward(self, ids: Tensor) -> Tensor:
        return self.table(ids).sum(-1)


class Halves(Task[Numbers]):
    """A task whose row i gives +1 for some rows and -1 for others, which depend on the seed as a split does."""

    metric = "accuracy"

    def __init__(self) -> None:
        self.signs = torch.randn(N).sign()

    def model(self, table: MakeTable) -> Numbers:
        return Numbers(table(N))

    def batches(self) -> Iterator[Batch]:
        for _ in range(10):
            yield (torch.cat((torch.arange(N), torch.zeros(3, dtype=torch.int64))),)

    def loss(self, model: Numbers, batch: Batch) -> Tensor:
        return (model(batch[0]) - self.signs[batch[0]]).square().mean()

    def score(self, model: Numbers, part: Part) -> float:
        return float((model(torch.arange(N)).sign() == self.signs).float().mean())

    def further(self, model: Numbers) -> Mapping[str, float]:
        assert not model.training
        assert not torch.is_grad_enabled()
        return {"largest": float(model(torch.arange(N)).max())}

    def example(self) -> Tensor:
        return torch.arange(3)


def dense(rate: float) -> Recipe:
    return Recipe(lambda rows: nn.Embedding(rows, DIM), epochs=5, quick_epochs=1, rate=rate)


def codes(rows: int) -> nn.Module:
    return edge_embed.DPQEmbedding(rows, DIM, num_codes=4, num_groups=4, variant="vq")


CANDIDATES = {"dense": [dense(0.0), dense(0.1)], "dpq": [Recipe(codes, epochs=10, quick_epochs=1, rate=0.05)]}
