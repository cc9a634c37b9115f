"""Trains the classifier with each table, exports, validates and compares."""

from collections.abc import Iterator
from pathlib import Path

import torch
from comparison import Result
from datasets import unpacked
from options import Options
from torch import Tensor, nn
from torch.nn import functional
from training import Batch, Part, Recipe, Task, compare

from ag_news.data import Texts, read
from ag_news.model import TABLES, Classifier

_BATCH = 64
_HELD_OUT = 2000

RECIPES = {
    "dense": Recipe(TABLES["dense"], epochs=4, quick_epochs=2, rate=1e-2),
    "dpq": Recipe(TABLES["dpq"], epochs=5, quick_epochs=2, rate=3e-3),
    "ant": Recipe(TABLES["ant"], epochs=6, quick_epochs=3, rate=1e-2, penalty=3e-5),
    "tt": Recipe(TABLES["tt"], epochs=12, quick_epochs=3, rate=1e-2),
}


class NewsTask(Task[Classifier]):
    """Classes of news.

    Args:
        folder: of the data set.
    """

    metric = "accuracy"

    def __init__(self, folder: Path) -> None:
        self.vocabulary, texts, self.test = read(folder)
        texts = texts[torch.randperm(len(texts))]
        self.validation, self.training = texts[:_HELD_OUT], texts[_HELD_OUT:]

    @property
    def rows(self) -> int:
        """Words that have an id."""
        return len(self.vocabulary)

    def model(self, table: nn.Module) -> Classifier:
        """The classifier."""
        return Classifier(table)

    def batches(self) -> Iterator[Batch]:
        """Ids and classes."""
        for batch in torch.randperm(len(self.training)).split(_BATCH):
            yield self.training.ids[batch], self.training.classes[batch]

    def loss(self, model: Classifier, batch: Batch) -> Tensor:
        """Cross entropy."""
        ids, classes = batch
        return functional.cross_entropy(model(ids), classes)

    def score(self, model: Classifier, part: Part) -> float:
        """The share of texts whose class is the likeliest."""
        texts: Texts = getattr(self, part)
        found = torch.cat([model(ids).argmax(-1) for ids in texts.ids.split(_BATCH)])
        return float((found == texts.classes).float().mean())

    def example(self) -> Tensor:
        """A few texts."""
        return self.test.ids[:4]


def run(options: Options) -> list[Result]:
    """Classify news by the mean of their words' vectors, with a dense table and three compressed ones."""
    with unpacked(options.data, "agnews20k") as folder:
        task = NewsTask(folder)
    return compare(task, RECIPES, options)
