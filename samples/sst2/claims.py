"""Experiments on SST-2: phrases and sentences of film reviews, some of which are kept for validation and test."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from candidates import Candidates, penalties, rates
from datasets import folder_of, number_words
from methods import ant, dense, sx, tt, vq
from options import Options
from tables import MakeTable
from text_classifier import sentences
from text_task import Texts, TextTask, batches_by_length, encode
from training import Batch, Recipe

from sst2 import trees
from sst2.model import WIDTH, PhraseClassifier

_HELD_OUT = 5000  # for validation, and as many for the test: the 872 test sentences of SST-2 are too few
_LONGEST = 56
_BATCH = 64
_EPOCHS = 14
_QUICK_PHRASES, _QUICK_HELD_OUT = 10_000, 1_000

Rows = Sequence[tuple[int, Sequence[str]]]  # class, words


class PhraseTask(TextTask[PhraseClassifier]):
    """Sentiment of phrases."""

    def model(self, table: MakeTable) -> PhraseClassifier:
        """Return the classifier."""
        return PhraseClassifier(table(len(self.vocabulary)), int(self.training.classes.max()) + 1)

    def batches(self) -> Iterator[Batch]:
        """Yield ids and classes."""
        return batches_by_length(self.training, _BATCH)


def make_task(options: Options) -> Callable[[], PhraseTask]:
    """Return a function that makes the task, each time with other phrases for validation; the test stays the same.

    SST-5 has sentences of its own for both.
    """
    with folder_of(options.data, sentences.SST2, *trees.PUBLIC) as folder:
        if trees.is_public(folder):
            return _make_trees(folder, options.quick)
    phrases = sentences.read(options.data).training
    rows = [(label, text.lower().split()) for label, text in phrases]
    held_out = _QUICK_HELD_OUT if options.quick else _HELD_OUT
    if options.quick:
        rows = rows[: _QUICK_PHRASES + 2 * held_out]
    step = len(rows) // held_out
    testing = rows[::step][:held_out]
    training = [row for at, row in enumerate(rows) if at % step or at >= step * held_out]
    vocabulary, (texts, test) = _encoded(training, testing)
    return lambda: PhraseTask(vocabulary, texts, test, held_out)


def _make_trees(folder: Path, quick: bool) -> Callable[[], PhraseTask]:
    """Return a function that makes the task of SST-5: all phrases for training, sentences for validation and test."""
    train, dev, test = (folder / file for file in trees.PUBLIC)
    training = trees.phrases(train)[: _QUICK_PHRASES if quick else None]
    vocabulary, (texts, validation, testing) = _encoded(training, trees.sentences(dev), trees.sentences(test))
    return lambda: PhraseTask(vocabulary, texts, testing, validation)


def _encoded(training: Rows, *others: Rows) -> tuple[dict[str, int], list[Texts]]:
    """Return ids of the words that occur twice or more in training, and all parts as ids."""
    vocabulary = number_words((word for _, words in training for word in words), least=2)
    return vocabulary, [encode(part, vocabulary, _LONGEST) for part in (training, *others)]


def candidates(width: int = WIDTH) -> Candidates:
    """Return the settings of every method, for tables [*, width], all with as many epochs as TT needs."""
    return {
        "dense": _rates(dense(width), 3e-3, 1e-3),
        "dpq vq, K = 16, D = 32": _rates(vq(width, 16, 32, distance_norm=False), 3e-3),
        "dpq vq, K = 16, D = 16": _rates(vq(width, 16, 16, distance_norm=False), 3e-3),
        "dpq sx, K = 16, D = 32": _rates(sx(width, 32), 1e-2, 3e-3),
        "ant, A = 20": penalties(ant(width, 20), _EPOCHS, 1e-2, 1e-5, 1e-4, decay=True),
        "tt, R = 8": _rates(tt(width, 8), 5e-3),
        "tt, R = 12": _rates(tt(width, 12), 5e-3),
        "tt, R = 16": _rates(tt(width, 16), 5e-3),
    }


def _rates(table: MakeTable, *given: float) -> list[Recipe]:
    return rates(table, _EPOCHS, *given, decay=True)


CANDIDATES = candidates()
