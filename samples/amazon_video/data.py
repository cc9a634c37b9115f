"""Amazon's reviews of video games as sequences of items."""

from collections import Counter
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

import torch
from datasets import PADDING
from torch import Tensor

LENGTH = 20  # items of a history that are read
_FEWEST = 3  # items of a user: one to learn from, one for validation, one for the test


@dataclass(frozen=True)
class Histories:
    """Items in time order, one row a user.

    Attributes:
        num_items: rows of a table: the items, and padding.
        items: int64 [users, 22], padded in front; the last is for the test, the one before for validation.
    """

    num_items: int
    items: Tensor

    @property
    def training(self) -> Tensor:
        """Histories without what they are tested on, [users, 20]."""
        return self.items[:, :LENGTH]

    def begin(self, most: int) -> "Histories":
        """Those of the first users."""
        return Histories(self.num_items, self.items[:most])

    def part(self, part: Literal["validation", "test"]) -> tuple[Tensor, Tensor]:
        """Histories [users, 20], and the item after each, [users]."""
        end = LENGTH + (part == "test")
        return self.items[:, end - LENGTH : end], self.items[:, end]


def read(path: Path, least: int) -> Histories:
    """Read lines of user and item, in time order for each user.

    Args:
        path: of ``Video.txt``.
        least: items that come up less often are left out, and users with fewer than three items then.

    Returns:
        Items numbered by falling frequency from 1.
    """
    actions = [line.split() for line in path.read_text(encoding="ascii").splitlines()]
    counts = Counter(item for _, item in actions)
    kept = sorted((item for item in counts if counts[item] >= least), key=lambda item: (-counts[item], int(item)))
    number = {item: at for at, item in enumerate(kept, PADDING + 1)}
    rows = []
    for _, group in groupby(actions, key=lambda action: action[0]):
        items = [number[item] for _, item in group if item in number][-LENGTH - 2 :]
        if len(items) >= _FEWEST:
            rows.append([PADDING] * (LENGTH + 2 - len(items)) + items)
    return Histories(len(kept) + 1, torch.tensor(rows))
