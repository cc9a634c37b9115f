"""Trains the language model with each table, exports, validates and compares."""

import math
from collections.abc import Iterator
from pathlib import Path

import torch
from comparison import Result
from datasets import unpacked
from options import Options
from torch import Tensor, nn
from torch.nn import functional
from training import Batch, Part, Recipe, Task, compare

from wikitext2.data import read, windows
from wikitext2.model import TABLES, LanguageModel

_BATCH = 32
_LENGTH = 32
_QUICK_WORDS = 40_000

RECIPES = {
    "dense": Recipe(TABLES["dense"], epochs=5, quick_epochs=3, rate=1e-2),
    "dpq": Recipe(TABLES["dpq"], epochs=5, quick_epochs=3, rate=1e-2),
    "ant": Recipe(TABLES["ant"], epochs=5, quick_epochs=3, rate=1e-2, penalty=3e-4),
    "tt": Recipe(TABLES["tt"], epochs=5, quick_epochs=3, rate=1e-2),
}


class WordTask(Task[LanguageModel]):
    """The next word.

    Args:
        folder: of the data set.
        quick: read a part of the texts, and know fewer words.
    """

    metric = "perplexity"
    higher_is_better = False

    def __init__(self, folder: Path, quick: bool) -> None:
        text = read(folder, least=5 if quick else 3)
        self.vocabulary = text.vocabulary
        most = _QUICK_WORDS if quick else None
        self.training, self.validation, self.test = text.training[:most], text.validation[:most], text.test[:most]

    @property
    def rows(self) -> int:
        """Words that have an id."""
        return len(self.vocabulary)

    def model(self, table: nn.Module) -> LanguageModel:
        """The language model."""
        return LanguageModel(table)

    def batches(self) -> Iterator[Batch]:
        """Rows of words, cut at another place in each epoch."""
        rows = windows(self.training[int(torch.randint(_LENGTH, ())) :], _LENGTH)
        for batch in torch.randperm(len(rows)).split(_BATCH):
            yield (rows[batch],)

    def loss(self, model: LanguageModel, batch: Batch) -> Tensor:
        """Mean cross entropy of the next words."""
        (words,) = batch
        return functional.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())

    def score(self, model: LanguageModel, part: Part) -> float:
        """Perplexity; words without an id are one word, ``<unk>``."""
        rows = windows(getattr(self, part), _LENGTH)
        losses = [self.loss(model, (batch,)) * len(batch) for batch in rows.split(_BATCH)]
        return math.exp(float(sum(losses)) / len(rows))

    def example(self) -> Tensor:
        """A few rows."""
        return windows(self.test, _LENGTH)[:2, :-1]


def run(options: Options) -> list[Result]:
    """Predict words of WikiText-2; the output layer shares the embedding table, dense or compressed."""
    with unpacked(options.data, "wikitext2-valtest") as folder:
        task = WordTask(folder, options.quick)
    return compare(task, RECIPES, options)
