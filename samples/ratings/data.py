"""Ratings of a public layout as ids and numbers, or actions without ratings beside others that did not occur."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import click
import torch
from amazon_video.actions import Rated, actions, ratings
from amazon_video.data import numbers_of
from torch import Tensor

_PARTS = 10  # one for validation, one for the test


@dataclass(frozen=True)
class Ratings:
    """Ratings in random order.

    Attributes:
        users: int64 [m], from 1 by descending frequency.
        items: int64 [m], likewise.
        values: float32 [m].
    """

    users: Tensor
    items: Tensor
    values: Tensor

    def __getitem__(self, index: slice | Tensor) -> "Ratings":
        return Ratings(self.users[index], self.items[index], self.values[index])

    def __len__(self) -> int:
        return len(self.users)


def read(folder: Path) -> tuple[Ratings, Ratings, Ratings, tuple[int, int]]:
    """Read the ratings of a folder.

    Actions without ratings have the value 1. As many users with items of others, drawn at random, have the value 0.

    Returns:
        Training, validation and test, always the same, and the rows of the tables of users and items, with padding.

    Raises:
        click.ClickException: a line has another form than its layout, or there are too few.
    """
    found = ratings(folder) or _with_others(actions(folder))
    if len(found) < _PARTS:
        raise click.ClickException(f"{folder}: got {len(found)} ratings, expected {_PARTS} or more")
    user, item = numbers_of(action.user for action in found), numbers_of(action.item for action in found)
    users, items = torch.tensor([(user[action.user], item[action.item]) for action in found]).T
    whole = Ratings(users, items, torch.tensor([action.rating for action in found]))
    mixed = whole[torch.randperm(len(whole), generator=torch.Generator().manual_seed(0))]
    part = len(whole) // _PARTS
    return mixed[2 * part :], mixed[:part], mixed[part : 2 * part], (len(user) + 1, len(item) + 1)


def _with_others(taken: Sequence[tuple[str, str]]) -> list[Rated]:
    order = torch.randperm(len(taken), generator=torch.Generator().manual_seed(0)).tolist()
    others = [(user, taken[other][1]) for (user, _), other in zip(taken, order, strict=True)]
    return [Rated(user, item, 0.0, value) for pairs, value in ((taken, 1.0), (others, 0.0)) for user, item in pairs]
