"""Translation: the task that is trained."""

import math
from collections.abc import Iterator, Mapping, Sequence
from statistics import fmean

import sacrebleu
import torch
from datasets import PADDING
from tables import MakeTable
from torch import Tensor, nn
from torch.nn import functional
from training import Batch, Part, Task

from multi30k.data import BEGIN, END, Corpus, Pairs
from multi30k.density import densities
from multi30k.model import PLACES, Translator

_BATCH = 64
_MEASURED = 500  # sentences


class TranslationTask(Task[Translator]):
    """Prediction of each word of a translation from the sentence and the previous words.

    Args:
        corpus: all its parts.
        tied: whether the output layer of the model shares the table of the translations.
    """

    metric = "perplexity"
    higher_is_better = False
    rate = 1e-3
    num_layers = 1
    places = PLACES

    def __init__(self, corpus: Corpus, tied: bool = True) -> None:
        self.corpus, self.tied = corpus, tied

    def model(self, table: MakeTable) -> Translator:
        """Return the translator."""
        sizes = {"source": len(self.corpus.source_vocabulary), "target": len(self.corpus.target_vocabulary)}
        tables = nn.ModuleDict({name: table(rows) for name, rows in sizes.items()})
        return Translator(tables, self.num_layers, self.places, self.tied)

    def batches(self) -> Iterator[Batch]:
        """Yield sentences and translations in random order.

        A batch has similar lengths, as padding costs time.
        """
        training = self.corpus.training
        lengths = (training.target != PADDING).sum(1)
        for several in torch.randperm(len(training)).split(16 * _BATCH):
            for batch in several[lengths[several].argsort()].split(_BATCH):
                yield _cut(training[batch])

    def ids(self, batch: Batch) -> Sequence[Tensor]:
        """Return the ids of both languages."""
        return batch

    def loss(self, model: Translator, batch: Batch) -> Tensor:
        """Return the mean cross entropy of the next words of the translations."""
        source, target = batch
        logits = model(source, target[:, :-1])
        return functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=PADDING)

    def score(self, model: Translator, part: Part) -> float:
        """Return the perplexity; all words without an id count as one word, ``<unk>``."""
        pairs: Pairs = getattr(self.corpus, part)
        total = words = 0.0
        for rows in torch.arange(len(pairs)).split(_BATCH):
            batch = _cut(pairs[rows])
            known = int((batch[1][:, 1:] != PADDING).sum())
            total, words = total + float(self.loss(model, batch)) * known, words + known
        return math.exp(total / words)

    def further(self, model: Translator) -> Mapping[str, float]:
        """Return BLEU and the density of attention."""
        return {"BLEU": self.bleu(model), "density": self.density(model)}

    def bleu(self, model: Translator) -> float:
        """Return BLEU of greedy translations of the test part; the texts are already split into words."""
        texts = [" ".join(words) for words in self.translated(model, self.corpus.test.source)]
        return float(sacrebleu.corpus_bleu(texts, [self.corpus.references], tokenize="none", force=True).score)

    def density(self, model: Translator) -> float:
        """Return the mean density of all layers in percent, over the first sentences of the test part."""
        return fmean(densities(model, *self.measured()).values())

    def measured(self) -> tuple[Tensor, Tensor]:
        """Return the sentences whose attention is measured, and their translations without the last word."""
        source, target = _cut(self.corpus.test[:_MEASURED])
        return source, target[:, :-1]

    def translated(self, model: Translator, source: Tensor) -> list[list[str]]:
        """Return the words of greedy translations of integers [sentences, words]."""
        return [words for rows in source.split(_BATCH) for words in self._translations(model, rows)]

    def _translations(self, model: Translator, source: Tensor) -> list[list[str]]:
        """Return greedy translations of integers [sentences, words], word by word until each sentence has ended."""
        names = list(self.corpus.target_vocabulary)
        begin, end = (self.corpus.target_vocabulary[mark] for mark in (BEGIN, END))
        words, ended = torch.full((len(source), 1), begin), torch.zeros(len(source), dtype=torch.bool)
        while words.shape[1] < self.places and not ended.all():
            following = model(source, words)[:, -1].argmax(-1)
            ended |= following == end
            words = torch.cat([words, following.masked_fill(ended, PADDING).unsqueeze(1)], 1)
        return [[names[word] for word in row[1:] if word != PADDING] for row in words.tolist()]

    def example(self) -> tuple[Tensor, ...]:
        """Return a few sentences and translations."""
        return _cut(self.corpus.test[:4])


def _cut(pairs: Pairs) -> tuple[Tensor, Tensor]:
    """Return both languages without columns that are all padding."""
    source, target = (ids[:, : int((ids != PADDING).sum(1).max())] for ids in (pairs.source, pairs.target))
    return source, target
