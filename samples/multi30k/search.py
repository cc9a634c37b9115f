"""Beam search with the exported parts of the translator; a beam of one is greedy search.

A translation y of a sentence has the score  (sum_t log p(y_t)) / |y|,  with the end among its words.
"""

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

import edge_embed

Array = NDArray[Any]
_Found = tuple[float, list[int]]  # score and words


class ExportedTranslator:
    """Sessions over the two parts of `multi30k.cached`.

    Args:
        encoder: file of the first part.
        decoder: file of the second part.
        portable: leave the operator library out.
    """

    def __init__(self, encoder: Path, decoder: Path, portable: bool = False) -> None:
        self._encoder = edge_embed.create_session(encoder, portable)
        self._decoder = edge_embed.create_session(decoder, portable)
        self._source, self._states, self._word, *past = self._decoder.get_inputs()
        self._past = {each.name: each.shape[-1] for each in past}

    def read(self, source: Array) -> tuple[Array, Array, list[Array]]:
        """Return a sentence [1, words], its states, and the empty past."""
        (states,) = self._encoder.run(None, {self._encoder.get_inputs()[0].name: source})
        return source, states, [np.zeros((1, 0, width), np.float32) for width in self._past.values()]

    def step(self, source: Array, states: Array, words: Array, past: list[Array]) -> tuple[Array, list[Array]]:
        """Return the log probabilities [beam, rows] of the next words after ``words`` [beam], and the new past."""
        beam = len(words)
        inputs = {self._source.name: source.repeat(beam, 0), self._states.name: states.repeat(beam, 0)}
        inputs |= {self._word.name: words[:, None], **dict(zip(self._past, past, strict=True))}
        logits, *present = self._decoder.run(None, inputs)
        return log_softmax(logits[:, 0].astype(np.float64), axis=-1), present


def translate(translator: ExportedTranslator, source: Array, begin: int, end: int, beam: int, most: int) -> list[int]:
    """Return the ids of the best translation found, without its begin and end.

    Args:
        translator: the exported parts.
        source: int64 [words], the ids of a sentence.
        begin: id before each translation.
        end: id after it.
        beam: number of translations that continue.
        most: maximum number of words.
    """
    sentence, states, past = translator.read(source[None])
    texts, sums = np.full((1, 1), begin), np.zeros(1)
    ended: list[_Found] = []
    for length in range(1, most + 1):
        chances, past = translator.step(sentence, states, texts[:, -1], past)
        totals = (sums[:, None] + chances).flatten()  # [beam * rows]
        highest = np.argsort(-totals, kind="stable")[:beam]
        earlier, words = np.divmod(highest, chances.shape[1])
        goes_on = words != end
        finished = zip(highest[~goes_on], earlier[~goes_on], strict=True)
        ended += [(totals[at] / length, texts[row, 1:].tolist()) for at, row in finished]
        sums, earlier = totals[highest[goes_on]], earlier[goes_on]
        texts, past = np.column_stack((texts[earlier], words[goes_on])), [each[earlier] for each in past]
        if len(ended) >= beam or not len(sums):
            break
    unfinished: list[_Found] = [(total, text[1:].tolist()) for total, text in zip(sums, texts, strict=True)]
    return max(ended or unfinished)[1]
