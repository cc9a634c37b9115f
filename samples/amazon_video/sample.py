"""Trains the recommender with each table, exports, validates and compares."""

from collections.abc import Iterator
from pathlib import Path

import torch
from comparison import Result
from datasets import PADDING, unpacked
from options import Options
from torch import Tensor, nn
from torch.nn import functional
from training import Batch, Part, Recipe, Task, compare

from amazon_video.data import read
from amazon_video.model import TABLES, Recommender

_BATCH = 128
_OTHERS = 1000  # items at random that a state is compared with in training, beside those of the batch
_TOP = 10

RECIPES = {
    "dense": Recipe(TABLES["dense"], epochs=8, quick_epochs=3, rate=1e-2),
    "dpq": Recipe(TABLES["dpq"], epochs=8, quick_epochs=3, rate=1e-2),
    "ant": Recipe(TABLES["ant"], epochs=8, quick_epochs=3, rate=3e-2, penalty=1e-4),
    "tt": Recipe(TABLES["tt"], epochs=12, quick_epochs=3, rate=1e-2),
}


class NextItemTask(Task[Recommender]):
    """The last item of each user, from the 20 before it.

    Args:
        folder: of the data set.
        quick: leave out rare items and half of the users.
    """

    metric = f"hits in {_TOP}"

    def __init__(self, folder: Path, quick: bool) -> None:
        self.histories = read(folder / "Video.txt", least=20 if quick else 1)

    @property
    def rows(self) -> int:
        """Items, and padding."""
        return self.histories.num_items

    def model(self, table: nn.Module) -> Recommender:
        """The recommender."""
        return Recommender(table)

    def batches(self) -> Iterator[Batch]:
        """Histories without the items of validation and test; the longest ones together would be no faster."""
        training = self.histories.training
        for batch in torch.randperm(len(training)).split(_BATCH):
            yield (training[batch],)

    def loss(self, model: Recommender, batch: Batch) -> Tensor:
        """Cross entropy of each item after those before it, among the items of the batch and some at random."""
        (ids,) = batch
        known = ids[:, 1:] != PADDING
        states, following = model.states(ids[:, :-1])[known], ids[:, 1:][known]  # [m, d], [m]
        others = torch.randint(1, self.rows, (_OTHERS,))
        items = torch.cat((following, others)).unique()  # sorted
        return functional.cross_entropy(model.scores_of(states, items), torch.searchsorted(items, following))

    def score(self, model: Recommender, part: Part) -> float:
        """The share of users whose next item is among the ten with the highest scores, out of all items."""
        histories, following = self.histories.part(part)
        found = torch.cat([model(batch)[:, 1:].topk(_TOP).indices + 1 for batch in histories.split(_BATCH)])
        return float((found == following.unsqueeze(1)).any(1).float().mean())

    def example(self) -> Tensor:
        """A few histories."""
        return self.histories.part("test")[0][:4]


def run(options: Options) -> list[Result]:
    """Recommend the next video game; the output layer shares the table of items, dense or compressed."""
    with unpacked(options.data, "amazon-video") as folder:
        task = NextItemTask(folder, options.quick)
    return compare(task, RECIPES, options)
