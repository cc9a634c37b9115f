"""What is tried on SST-2: phrases and sentences of film reviews, some of which are kept for validation and test."""

from collections.abc import Callable, Iterator

from candidates import Candidates, Table, penalties, rates, sx
from datasets import number_words
from options import Options
from text_classifier import sentences
from text_task import TextTask, batches_by_length, encode
from tied_output import small_embedding
from torch import nn
from training import Batch

import edge_embed
from sst2.model import WIDTH, PhraseClassifier

_HELD_OUT = 5000  # for validation, and as many for the test: the 872 sentences that SST-2 has for it say too little
_LONGEST = 56
_BATCH = 64
_QUICK_PHRASES = 10_000


class PhraseTask(TextTask[PhraseClassifier]):
    """Praise or blame."""

    def model(self, table: nn.Module) -> PhraseClassifier:
        """The classifier."""
        return PhraseClassifier(table)

    def batches(self) -> Iterator[Batch]:
        """Ids and classes."""
        return batches_by_length(self.training, _BATCH)


def make_task(options: Options) -> Callable[[], PhraseTask]:
    """Makes the task anew, with other phrases for validation each time; those of the test stay."""
    phrases = sentences.read(options.data).training
    rows = [(label, text.lower().split()) for label, text in phrases]
    if options.quick:
        rows = rows[: _QUICK_PHRASES + 2 * _HELD_OUT]
    step = len(rows) // _HELD_OUT
    testing = rows[::step][:_HELD_OUT]
    training = [row for at, row in enumerate(rows) if at % step or at >= step * _HELD_OUT]
    vocabulary = number_words((word for _, words in training for word in words), least=2)
    texts, test = (encode(part, vocabulary, _LONGEST) for part in (training, testing))
    return lambda: PhraseTask(vocabulary, texts, test, _HELD_OUT)


def _dense(words: int) -> nn.Module:
    return small_embedding(words, WIDTH, padding_idx=0)


def _vq(num_groups: int) -> Table:
    return lambda words: edge_embed.DPQEmbedding(words, WIDTH, 16, num_groups, variant="vq", padding_idx=0)


def _ant(num_anchors: int) -> Table:
    return lambda words: edge_embed.ANTEmbedding(words, WIDTH, num_anchors, padding_idx=0)


def _tt(rank: int) -> Table:
    return lambda words: edge_embed.TTEmbedding(words, WIDTH, rank=rank, padding_idx=0)


CANDIDATES: Candidates = {
    "dense": rates(_dense, 6, 3e-3, 1e-3),
    "dpq vq, K = 16, D = 32": rates(_vq(32), 6, 3e-3, 1e-2),
    "dpq vq, K = 16, D = 16": rates(_vq(16), 6, 3e-3, 1e-2),
    "dpq sx, K = 16, D = 32": rates(sx(edge_embed.DPQEmbedding, WIDTH, 32), 6, 3e-3, 1e-2),
    "ant, A = 20": penalties(_ant(20), 6, 1e-2, 3e-5, 1e-5),
    "tt, R = 8": rates(_tt(8), 12, 3e-3, 1e-2),
    "tt, R = 16": rates(_tt(16), 12, 3e-3, 1e-2),
}
