"""Classification of texts, as rows of word ids: the data, and the task that is trained."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import click
import torch
from datasets import PADDING, UNKNOWN
from torch import Tensor, nn
from torch.nn import functional
from training import Batch, Model, Part, Task

_BATCH = 64


@dataclass(frozen=True)
class Texts:
    """Texts and their classes.

    Attributes:
        ids: words, int64 [texts, words], padded at the end.
        classes: int64 [texts], from 0.
    """

    ids: Tensor
    classes: Tensor

    def __getitem__(self, index: slice | Tensor) -> "Texts":
        return Texts(self.ids[index], self.classes[index])

    def __len__(self) -> int:
        return len(self.ids)


def encode(rows: Sequence[tuple[int, Sequence[str]]], vocabulary: Mapping[str, int], longest: int) -> Texts:
    """Return classes and words as numbers; at most ``longest`` words of a text are read."""
    ids = torch.full((len(rows), longest), PADDING)
    for at, (_, words) in enumerate(rows):
        known = [vocabulary.get(word, UNKNOWN) for word in words[:longest]]
        ids[at, : len(known)] = torch.tensor(known, dtype=torch.int64)
    return Texts(ids, torch.tensor([label for label, _ in rows]))


def batches_by_length(texts: Texts, size: int) -> Iterator[Batch]:
    """Yield ids and classes in random order; texts of a batch have similar lengths, as padding costs time."""
    lengths = (texts.ids != PADDING).sum(1)
    for several in torch.randperm(len(lengths)).split(16 * size):
        for batch in several[lengths[several].argsort()].split(size):
            yield texts.ids[batch, : max(1, int(lengths[batch].max()))], texts.classes[batch]


class TextTask(Task[Model]):
    """Classification of texts.

    Args:
        vocabulary: ids by word.
        texts: texts for training, in any order.
        test: texts for the final score.
        held_out: number of the training texts that are kept for validation, or other texts for it.

    Raises:
        click.ClickException: no texts are left for training.
    """

    metric = "accuracy"

    def __init__(self, vocabulary: Mapping[str, int], texts: Texts, test: Texts, held_out: int | Texts) -> None:
        self.vocabulary, self.test = vocabulary, test
        texts = texts[torch.randperm(len(texts))]
        if isinstance(held_out, Texts):
            self.validation, self.training = held_out, texts
            return
        if len(texts) <= held_out:
            got = f"got {len(texts):,} texts for training"
            raise click.ClickException(f"{got}, expected more than the {held_out:,} that are kept for validation")
        self.validation, self.training = texts[:held_out], texts[held_out:]

    def batches(self) -> Iterator[Batch]:
        """Yield ids and classes."""
        for batch in torch.randperm(len(self.training)).split(_BATCH):
            yield self.training.ids[batch], self.training.classes[batch]

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """Return the cross entropy."""
        ids, classes = batch
        return functional.cross_entropy(model(ids), classes)

    def score(self, model: nn.Module, part: Part) -> float:
        """Return the share of texts whose class has the highest logit."""
        texts: Texts = getattr(self, part)
        found = torch.cat([model(ids).argmax(-1) for ids in texts.ids.split(_BATCH)])
        return float((found == texts.classes).float().mean())

    def example(self) -> Tensor:
        """Return a few texts."""
        return self.test.ids[:4]
