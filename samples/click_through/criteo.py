"""Clicks on advertisements of Criteo, in their public layout: 26 categories and 13 counts of each, in one table.

The layout is that of the Display Advertising Challenge: ``train.txt``, in the order of time, with tabs between 1 or 0
for a click, 13 integers and 26 categories, some of them empty. All categories share one table, as the ids of different
fields differ. The last tenth of the lines is for the test, the tenth before it for validation.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import click
import torch
from datasets import UNKNOWN, number_words
from sklearn.metrics import roc_auc_score
from tables import MakeTable, width_of
from torch import Tensor, nn
from torch.nn import functional
from training import Batch, Part, Task

PUBLIC = "train.txt"
_COUNTS, _CATEGORIES = 13, 26
_LEAST = 10  # less frequent categories share one row
_HELD_OUT = 10  # one line in ten, for validation and as many for the test
_BATCH, _HIDDEN = 2048, 64


@dataclass(frozen=True)
class Clicks:
    """Advertisements in the order of time.

    Attributes:
        num_rows: rows of the table.
        ids: categories, int32 [clicks, 26].
        counts: logarithms of counts, float32 [clicks, 13].
        taken: 1 for a click, float32 [clicks].
    """

    num_rows: int
    ids: Tensor
    counts: Tensor
    taken: Tensor

    def __getitem__(self, index: slice | Tensor) -> Batch:
        return self.ids[index].long(), self.counts[index], self.taken[index]


def read(path: Path, most: int | None = None) -> Clicks:
    """Read the first ``most`` lines, twice: the categories are counted first.

    Raises:
        click.ClickException: a line has another form, or there are too few lines to hold some out.
    """
    total = sum(1 for _ in _lines(path, most))
    if total < _HELD_OUT:
        raise click.ClickException(f"{path}: got {total} lines, expected at least {_HELD_OUT}")
    held_out = 2 * (total // _HELD_OUT)
    words = (word for fields in _lines(path, total - held_out) for word in _words(fields))
    numbers = number_words(words, _LEAST)
    ids = torch.empty(total, _CATEGORIES, dtype=torch.int32)
    counts, taken = torch.empty(total, _COUNTS), torch.empty(total)
    for at, fields in enumerate(_lines(path, most)):
        ids[at] = torch.tensor([numbers.get(word, UNKNOWN) for word in _words(fields)])
        counts[at] = torch.tensor([math.log1p(max(0, int(count or 0))) for count in fields[1 : 1 + _COUNTS]])
        taken[at] = int(fields[0])
    return Clicks(len(numbers), ids, counts, taken)


def _lines(path: Path, most: int | None) -> Iterator[list[str]]:
    with path.open(encoding="utf-8-sig", errors="replace") as file:
        for number, line in enumerate(islice(file, most), 1):
            if not line.strip():
                continue
            fields = line.rstrip("\n").split("\t")
            integers = (field.removeprefix("-") or "0" for field in fields[1 : 1 + _COUNTS])
            is_whole = len(fields) == 1 + _COUNTS + _CATEGORIES and fields[0] in ("0", "1")
            if not (is_whole and all(map(str.isdecimal, integers))):
                expected = f"expected 0 or 1, {_COUNTS} integers and {_CATEGORIES} categories between tabs"
                raise click.ClickException(f"{path}, line {number}: got {line.strip()!r:.60}, {expected}")
            yield fields


def _words(fields: list[str]) -> Iterator[str]:
    """Yield the categories of a line, each with its field."""
    return (f"{field}:{word}" for field, word in enumerate(fields[1 + _COUNTS :]))


class AdModel(nn.Module):
    """Logit of the probability that an advertisement is clicked.

    Args:
        table: layer that looks up rows [*, width] of ids [*].
    """

    def __init__(self, table: nn.Module) -> None:
        super().__init__()
        self.table = table
        self.dropout = nn.Dropout(0.3)
        inputs = _CATEGORIES * width_of(table) + _COUNTS
        self.click = nn.Sequential(nn.Linear(inputs, _HIDDEN), nn.ReLU(), nn.Linear(_HIDDEN, 1))

    def forward(self, ids: Tensor, counts: Tensor) -> Tensor:
        """Return logits [batch] of categories, integers [batch, 26], and counts [batch, 13]."""
        rows = self.dropout(self.table(ids)).flatten(1)
        logits: Tensor = self.click(torch.cat((rows, counts), 1))
        return logits.squeeze(1)


class AdTask(Task[AdModel]):
    """Prediction of clicks on advertisements.

    Args:
        clicks: all of them.
    """

    metric = "AUC"

    def __init__(self, clicks: Clicks) -> None:
        self.clicks = clicks
        held_out = len(clicks.ids) // _HELD_OUT
        self._num_training = len(clicks.ids) - 2 * held_out
        self._parts = {"validation": slice(-2 * held_out, -held_out), "test": slice(-held_out, None)}

    def model(self, table: MakeTable) -> AdModel:
        """Return the predictor."""
        return AdModel(table(self.clicks.num_rows))

    def batches(self) -> Iterator[Batch]:
        """Yield categories, counts, and whether there was a click."""
        for batch in torch.randperm(self._num_training).split(_BATCH):
            yield self.clicks[batch]

    def loss(self, model: AdModel, batch: Batch) -> Tensor:
        """Return the binary cross entropy."""
        ids, counts, taken = batch
        return functional.binary_cross_entropy_with_logits(model(ids, counts), taken)

    def score(self, model: AdModel, part: Part) -> float:
        """Return the area under the curve of all clicks."""
        ids, counts, taken = self.clicks[self._parts[part]]
        scores = torch.cat([model(*rows) for rows in zip(ids.split(_BATCH), counts.split(_BATCH), strict=True)])
        return float(roc_auc_score(taken, scores))

    def example(self) -> tuple[Tensor, ...]:
        """Return a few advertisements."""
        return self.clicks[:4][:2]
