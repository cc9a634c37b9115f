"""Clicks, with an equal number of items that were not clicked: the data, and the task that is trained."""

from collections.abc import Iterator, Sequence

import torch
from amazon_video.data import LENGTH, Histories
from datasets import PADDING
from sklearn.metrics import roc_auc_score
from tables import MakeTable
from torch import Tensor, nn
from torch.nn import functional
from training import Batch, Part, Task

from click_through.model import ClickModel

_BATCH = 1024  # clicks
_RECENT = 5
_END = {"validation": LENGTH, "test": LENGTH + 1}


class ClickTask(Task[ClickModel]):
    """Prediction of which of two items a user clicked: the user's own item, or that of another user.

    Both occur equally often, so the popularity of an item is no clue.

    Args:
        histories: items of all users.
    """

    metric = "AUC"

    def __init__(self, histories: Histories) -> None:
        self.num_users, self.num_items = len(histories.items) + 1, histories.num_items
        self.items = histories.items
        is_training = self.items[:, :LENGTH] != PADDING
        order = is_training.sum(1).argsort(descending=True, stable=True)
        self.user_ids = torch.empty_like(order).index_copy_(0, order, torch.arange(1, self.num_users))  # by frequency
        users, places = is_training.nonzero(as_tuple=True)
        self.training = self._clicks(users, places)

    def _clicks(self, users: Tensor, places: Tensor) -> Batch:
        """Return users [m], items [m] and the items before them [m, 5] at some places of the histories."""
        padded = functional.pad(self.items, (_RECENT, 0), value=PADDING)
        recent = padded[users.unsqueeze(1), places.unsqueeze(1) + torch.arange(_RECENT)]
        return self.user_ids[users], self.items[users, places], recent

    def model(self, table: MakeTable) -> ClickModel:
        """Return the predictor."""
        sizes = {"user": self.num_users, "item": self.num_items, "recent": self.num_items}
        return ClickModel(nn.ModuleDict({name: table(rows) for name, rows in sizes.items()}))

    def batches(self) -> Iterator[Batch]:
        """Yield users, items, the previous items, and whether the user clicked the item."""
        for batch in torch.randperm(len(self.training[0])).split(_BATCH):
            yield _with_others([column[batch] for column in self.training])

    def ids(self, batch: Batch) -> Sequence[Tensor]:
        """Return the ids of users, items and recent items."""
        return batch[:3]

    def loss(self, model: ClickModel, batch: Batch) -> Tensor:
        """Return the binary cross entropy."""
        *ids, taken = batch
        return functional.binary_cross_entropy_with_logits(model(*ids), taken)

    def score(self, model: ClickModel, part: Part) -> float:
        """Return the share of pairs of a click and another item in which the click has the higher score."""
        users = torch.arange(len(self.items))
        clicks = self._clicks(users, torch.full_like(users, _END[part]))
        *ids, taken = _with_others(clicks, torch.Generator().manual_seed(0))
        scores = torch.cat([model(*rows) for rows in zip(*(column.split(_BATCH) for column in ids), strict=True)])
        return float(roc_auc_score(taken, scores))

    def example(self) -> tuple[Tensor, ...]:
        """Return a few clicks."""
        return tuple(column[:4] for column in self.training)


def _with_others(clicks: Sequence[Tensor], random: torch.Generator | None = None) -> Batch:
    """Return clicks, then the same users with the items of other clicks; 1 and 0 in the last column."""
    users, items, recent = clicks
    others = items[torch.randperm(len(items), generator=random)]
    taken = torch.arange(2).repeat_interleave(len(items)).flip(0).float()
    return users.repeat(2), torch.cat((items, others)), recent.repeat(2, 1), taken
