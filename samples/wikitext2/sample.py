"""Trains the language model with each table, then exports, validates and compares the models."""

import math
from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from comparison import Result
from options import Options
from tables import MakeTable
from torch import Tensor, nn
from torch.nn import functional
from training import Batch, Part, Recipe, Task, compare

from wikitext2.data import Text, read, text_folder, windows
from wikitext2.model import TABLES, LanguageModel

Output = Literal["shared", "own", "dense"]
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
    """Prediction of the next word.

    Args:
        text: all its parts.
        output: the output layer shares the table (``"shared"``), has one of the same method (``"own"``), or is dense.
    """

    metric = "perplexity"
    higher_is_better = False

    def __init__(self, text: Text, output: Output = "shared") -> None:
        self.vocabulary, self.output = text.vocabulary, output
        self.training, self.validation, self.test = text.training, text.validation, text.test

    def model(self, table: MakeTable) -> LanguageModel:
        """Return the language model."""
        rows = len(self.vocabulary)
        if self.output == "own":
            return LanguageModel(nn.ModuleDict({name: table(rows) for name in ("input", "output")}))
        return LanguageModel(table(rows), tied=self.output == "shared")

    def batches(self) -> Iterator[Batch]:
        """Yield rows of words, cut at another place in each epoch."""
        rows = windows(self.training[int(torch.randint(_LENGTH, ())) :], _LENGTH)
        for batch in torch.randperm(len(rows)).split(_BATCH):
            yield (rows[batch],)

    def ids(self, batch: Batch) -> Sequence[Tensor]:
        """Return the words, for each table."""
        return batch * (2 if self.output == "own" else 1)

    def loss(self, model: LanguageModel, batch: Batch) -> Tensor:
        """Return the mean cross entropy of the next words."""
        (words,) = batch
        return functional.cross_entropy(model(words[:, :-1]).flatten(0, 1), words[:, 1:].flatten())

    def score(self, model: LanguageModel, part: Part) -> float:
        """Return the perplexity; all words without an id count as one word, ``<unk>``."""
        rows = windows(getattr(self, part), _LENGTH)
        losses = [self.loss(model, (batch,)) * len(batch) for batch in rows.split(_BATCH)]
        return math.exp(float(sum(losses)) / len(rows))

    def example(self) -> Tensor:
        """Return a few rows."""
        return windows(self.test, _LENGTH)[:2, :-1]


def run(options: Options) -> list[Result]:
    """Predict words of WikiText-2; the output layer shares the embedding table, dense or compressed."""
    with text_folder(options.data) as folder:
        text = read(folder, least=5).begin(_QUICK_WORDS) if options.quick else read(folder, least=3)
    return compare(WordTask(text), RECIPES, options)
