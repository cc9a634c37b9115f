"""Masked words of texts, on which BERT is pre-trained, and the classes of these texts.

Of 100 words 15 are predicted: 80 % of them are masked, 10 % are another word, 10 % stay. Source: Devlin and others,
"BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding" (2019), section 3.1.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from datasets import PADDING, UNKNOWN
from tables import MakeTable
from text_task import Texts, TextTask, batches_by_length
from torch import Generator, Tensor, nn
from torch.nn import functional
from training import Batch, Part, Recipe, Task, evaluate, train

from bert.model import SPECIAL, Classifier, MaskedWords, mask_of

_BATCH = 32
_PREDICTED, _MASKED, _OTHER = 0.15, 0.8, 0.1
_PASSES = 3  # over the texts in pre-training, for each one in fine-tuning
_RATE = 1e-3


class MaskedTask(Task[MaskedWords]):
    """Prediction of masked words.

    Args:
        words: number of words in the vocabulary.
        training: texts; their classes are not used.
        validation: texts for the choice of the epoch.
        test: texts for the score.
    """

    metric = "perplexity of masked words"
    higher_is_better = False
    rate = _RATE

    def __init__(self, words: int, training: Texts, validation: Texts, test: Texts) -> None:
        self.words, self.training, self.validation, self.test = words, training, validation, test

    def model(self, table: MakeTable) -> MaskedWords:
        """Return the model."""
        return MaskedWords(table(self.words + SPECIAL))

    def batches(self) -> Iterator[Batch]:
        """Yield ids, and a part of them as the words to predict."""
        for ids, _ in batches_by_length(self.training, _BATCH):
            predicted = _drawn(ids)
            if predicted.any():
                yield ids, predicted

    def loss(self, model: MaskedWords, batch: Batch) -> Tensor:
        """Return the cross entropy of the words to predict."""
        ids, predicted = batch
        return functional.cross_entropy(model(self._hidden(model, ids, predicted, None), predicted), ids[predicted])

    def score(self, model: MaskedWords, part: Part) -> float:
        """Return the perplexity of words that are the same at each call."""
        texts: Texts = getattr(self, part)
        fixed, loss, count = Generator().manual_seed(0), 0.0, 0
        for ids in texts.ids.split(_BATCH):
            predicted = _drawn(ids, fixed)
            logits = model(self._hidden(model, ids, predicted, fixed), predicted)
            loss += float(functional.cross_entropy(logits, ids[predicted], reduction="sum"))
            count += len(logits)
        return math.exp(loss / count)

    def example(self) -> tuple[Tensor, ...]:
        """Return a few texts."""
        ids = self.test.ids[:4]
        return ids, ids != PADDING

    def _hidden(self, model: MaskedWords, ids: Tensor, predicted: Tensor, fixed: Generator | None) -> Tensor:
        """Return ids with most of the words to predict replaced."""
        draw = torch.rand(ids.shape, generator=fixed)
        others = torch.randint(UNKNOWN + 1, self.words, ids.shape, generator=fixed)
        ids = ids.masked_fill(predicted & (draw < _MASKED), mask_of(model.table))
        return torch.where(predicted & (draw >= 1 - _OTHER), others, ids)


def _drawn(ids: Tensor, fixed: Generator | None = None) -> Tensor:
    """Return the words to predict, a bool of the shape of ids."""
    return (torch.rand(ids.shape, generator=fixed) < _PREDICTED) & (ids > UNKNOWN)


class PretrainedTask(TextTask[Classifier]):
    """Classification of texts by a model that was pre-trained on the words of the same texts."""

    rate = _RATE / 2

    def model(self, table: MakeTable) -> Classifier:
        """Return the classifier, not pre-trained."""
        return Classifier(table(len(self.vocabulary) + SPECIAL), int(self.training.classes.max()) + 1)

    def batches(self) -> Iterator[Batch]:
        """Yield ids and classes."""
        return batches_by_length(self.training, _BATCH)

    def further(self, model: nn.Module) -> Mapping[str, float]:
        """Return the perplexity of masked words before fine-tuning."""
        return {MaskedTask.metric: float(model.get_buffer("perplexity"))}


def pretrained(recipe: Recipe) -> Recipe:
    """Return a recipe whose models are pre-trained on masked words, with its table and settings."""

    def begin(task: Task[Any], epochs: int) -> Classifier:
        assert isinstance(task, PretrainedTask)
        masked = MaskedTask(len(task.vocabulary), task.training, task.validation, task.test)
        settings = replace(recipe, rate=2 * recipe.rate)  # as the rate of the rest
        first = train(masked, settings, "masked words", _PASSES * epochs)
        model = task.model(lambda rows: first.table)
        model.bert.bert.load_state_dict(first.bert.bert.state_dict(), strict=False)  # but for the pooler, which is new
        model.register_buffer("perplexity", torch.tensor(evaluate(masked, first, "test")))
        return model

    return replace(recipe, begin=begin)
