"""Trains the recommender with each table, then exports, validates and compares the models."""

from collections.abc import Iterator

import torch
from comparison import Result
from datasets import PADDING
from options import Options
from tables import MakeTable
from torch import Tensor
from torch.nn import functional
from training import Batch, Part, Recipe, Task, compare

from amazon_video.data import Histories, read, video_folder
from amazon_video.model import TABLES, Recommender

_BATCH = 128
_OTHERS = 1000  # random items that a state is compared with in training, beside those of the batch
_TOP = 10

RECIPES = {
    "dense": Recipe(TABLES["dense"], epochs=8, quick_epochs=3, rate=1e-2),
    "dpq": Recipe(TABLES["dpq"], epochs=8, quick_epochs=3, rate=1e-2),
    "ant": Recipe(TABLES["ant"], epochs=8, quick_epochs=3, rate=3e-2, penalty=1e-4),
    "tt": Recipe(TABLES["tt"], epochs=12, quick_epochs=3, rate=1e-2),
}


class NextItemTask(Task[Recommender]):
    """Prediction of the last item of each user from the 20 items before it.

    Args:
        histories: histories of all users.
    """

    metric = f"hits in {_TOP}"

    def __init__(self, histories: Histories) -> None:
        self.histories = histories

    def model(self, table: MakeTable) -> Recommender:
        """Return the recommender."""
        return Recommender(table(self.histories.num_items))

    def batches(self) -> Iterator[Batch]:
        """Yield histories without the items for validation and test; sorting by length would gain no speed."""
        training = self.histories.training
        for batch in torch.randperm(len(training)).split(_BATCH):
            yield (training[batch],)

    def loss(self, model: Recommender, batch: Batch) -> Tensor:
        """Return the cross entropy of each item given those before it, among the batch's items and random ones."""
        (ids,) = batch
        known = ids[:, 1:] != PADDING
        states, following = model.states(ids[:, :-1])[known], ids[:, 1:][known]  # [m, d], [m]
        others = torch.randint(1, self.histories.num_items, (_OTHERS,))
        items = torch.cat((following, others)).unique()  # sorted
        return functional.cross_entropy(model.scores_of(states, items), torch.searchsorted(items, following))

    def score(self, model: Recommender, part: Part) -> float:
        """Return the share of users whose next item is among the ten with the highest scores, out of all items."""
        histories, following = self.histories.part(part)
        rows = model.table(torch.arange(1, self.histories.num_items))  # once for all users, not in each of their logits
        states = (model.states(batch)[:, -1] for batch in histories.split(_BATCH))
        found = torch.cat([(state @ rows.t()).topk(_TOP).indices + 1 for state in states])
        return float((found == following.unsqueeze(1)).any(1).float().mean())

    def example(self) -> Tensor:
        """Return a few histories."""
        return self.histories.part("test")[0][:4]


def run(options: Options) -> list[Result]:
    """Recommend the next video game; the output layer shares the table of items, dense or compressed."""
    with video_folder(options.data) as folder:
        histories = read(folder, least=20 if options.quick else 1)
    return compare(NextItemTask(histories), RECIPES, options)
