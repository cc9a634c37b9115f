"""Prediction of ratings."""

from collections.abc import Iterator, Sequence

import torch
from tables import MakeTable
from torch import Tensor, nn
from torch.nn import functional
from training import Batch, Part, Task

from ratings.data import Ratings
from ratings.model import Factors

_BATCH = 1024


class RatingTask(Task[Factors]):
    """Prediction of the rating of an item by a user.

    Args:
        training: ratings to learn from.
        validation: ratings for the choice of the epoch.
        test: ratings for the score.
        rows: rows of the tables of users and items.
    """

    metric = "mean squared error"
    higher_is_better = False

    def __init__(self, training: Ratings, validation: Ratings, test: Ratings, rows: tuple[int, int]) -> None:
        self.training, self.validation, self.test, self.rows = training, validation, test, rows

    def model(self, table: MakeTable) -> Factors:
        """Return the factorisation."""
        tables = {name: table(rows) for name, rows in zip(("user", "item"), self.rows, strict=True)}
        return Factors(nn.ModuleDict(tables), float(self.training.values.mean()))

    def batches(self) -> Iterator[Batch]:
        """Yield users, items and ratings."""
        for batch in torch.randperm(len(self.training)).split(_BATCH):
            some = self.training[batch]
            yield some.users, some.items, some.values

    def ids(self, batch: Batch) -> Sequence[Tensor]:
        """Return the ids of users and items."""
        return batch[:2]

    def loss(self, model: Factors, batch: Batch) -> Tensor:
        """Return the mean squared error."""
        users, items, values = batch
        return functional.mse_loss(model(users, items), values)

    def score(self, model: Factors, part: Part) -> float:
        """Return the mean squared error."""
        ratings: Ratings = getattr(self, part)
        return float(functional.mse_loss(model(ratings.users, ratings.items), ratings.values))

    def example(self) -> tuple[Tensor, ...]:
        """Return a few users and items."""
        return self.test.users[:4], self.test.items[:4]
