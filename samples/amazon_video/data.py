"""Amazon's reviews of video games as sequences of items, or other actions of users in a public layout."""

from collections import Counter
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

import click
import torch
from datasets import PADDING, folder_of
from torch import Tensor

from amazon_video.actions import PUBLIC, actions

LENGTH = 20  # items read of a history
_FEWEST = 3  # items of a user: one for training, one for validation, one for the test


@dataclass(frozen=True)
class Histories:
    """Items in time order, one row for each user.

    Attributes:
        num_items: rows of a table: the items, and padding.
        items: int64 [users, 22], padded in front; the last item is for the test, the one before for validation.
    """

    num_items: int
    items: Tensor

    @property
    def training(self) -> Tensor:
        """Histories without the items for validation and test, [users, 20]."""
        return self.items[:, :LENGTH]

    def begin(self, most: int) -> "Histories":
        """Return the histories of the first users."""
        return Histories(self.num_items, self.items[:most])

    def part(self, part: Literal["validation", "test"]) -> tuple[Tensor, Tensor]:
        """Return histories [users, 20], and the item after each, [users]."""
        end = LENGTH + (part == "test")
        return self.items[:, end - LENGTH : end], self.items[:, end]


def video_folder(data: Path) -> AbstractContextManager[Path]:
    """Return the folder for `read`: that of actions in a public layout, or the unpacked reviews of video games."""
    return folder_of(data, "amazon-video", *PUBLIC)


def read(folder: Path, least: int) -> Histories:
    """Read the actions of a folder.

    Args:
        folder: folder with ``Video.txt``, or with files of a public layout.
        least: less frequent items are left out, and then users with fewer than three items.

    Returns:
        Items numbered from 1 by descending frequency.

    Raises:
        click.ClickException: a line has another form than its layout, or no user has three items.
    """
    found = actions(folder)
    number = numbers_of((item for _, item in found), least)
    rows = []
    for _, group in groupby(found, key=lambda action: action[0]):
        items = [number[item] for _, item in group if item in number][-LENGTH - 2 :]
        if len(items) >= _FEWEST:
            rows.append([PADDING] * (LENGTH + 2 - len(items)) + items)
    if not rows:
        rare = f" that occur {least} times or more" if least > 1 else ""
        raise click.ClickException(f"{folder}: no user has {_FEWEST} items{rare}, expected histories to learn from")
    return Histories(len(number) + 1, torch.tensor(rows))


def numbers_of(names: Iterable[str], least: int = 1) -> dict[str, int]:
    """Return numbers of the names that occur ``least`` times or more, from 1 by descending frequency."""
    counts = Counter(names)
    kept = sorted((name for name in counts if counts[name] >= least), key=lambda name: (-counts[name], len(name), name))
    return {name: at for at, name in enumerate(kept, PADDING + 1)}
