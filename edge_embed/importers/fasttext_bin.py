"""fastText ``.bin``: after the part that `fasttext_model` reads, a matrix of rows of words and n-gram buckets.

The vector of a word is the mean of its row and those of its n-grams, as `fasttext.get_word_vector` returns it. Source:
`DenseMatrix::save` and `FastText::getWordVector` of fastText 0.9.2. Little-endian::

    int64 rows, columns; float32 numbers; the output layer follows
"""

import struct
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from edge_embed.importers.fasttext_left_out import parts_left_out
from edge_embed.importers.fasttext_model import FastTextModel
from edge_embed.importers.ngrams import word_ngrams
from edge_embed.importers.reading_options import AS_IT_SHOWS, Reading
from edge_embed.importers.word_vectors import Vectors, check_finite, unique_vectors

_MATRIX = struct.Struct("<2q")
_END_OF_LINE = b"</s>"  # this token has no n-grams
_BLOCK_BYTES = 1 << 16  # of words at a time

Numbers = NDArray[np.float32]


def read_bin(model: FastTextModel, reading: Reading = AS_IT_SHOWS) -> Vectors:
    """Read the words of a model; labels, and the parts for vectors of other words, are left out.

    Args:
        model: a model that is not quantised.
        reading: options for words that are not UTF-8.

    Raises:
        BadInputError: it is damaged, or holds numbers that are not finite.
    """
    num_rows, num_columns = model.file.numbers(_MATRIX)
    model.check_matrix(num_rows, num_columns)
    what = f"a matrix of {num_rows} rows of {num_columns}"
    matrix = model.file.array("<f4", num_rows * num_columns, what).reshape(num_rows, num_columns)
    tokens = model.tokens(reading.encoding_errors)
    table = np.empty((len(tokens), num_columns), np.float32)
    done = 0
    for words in _blocks(model.words):
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            table[done : done + len(words)] = _means(model, matrix, words, done)
        done += len(words)
    check_finite(table, lambda row: f"word {row + 1} ({tokens[row]!r:.80})")
    vectors = unique_vectors(table, tokens, model.path, reading)
    parts = (*vectors.facts.left_out, *parts_left_out(model, num_columns))
    return replace(vectors, facts=replace(vectors.facts, left_out=parts))


def _blocks(words: list[bytes]) -> Iterator[list[bytes]]:
    """Yield words in order in blocks."""
    block: list[bytes] = []
    size = 0
    for word in words:
        block.append(word)
        size += len(word) + 2
        if size >= _BLOCK_BYTES:
            yield block
            block, size = [], 0
    if block:
        yield block


def _means(model: FastTextModel, matrix: Numbers, words: list[bytes], first: int) -> Numbers:
    """Return the vectors of words, summed in the order of fastText to get the same bits."""
    buckets, counts = word_ngrams(words, model.ngrams)
    whole = np.array([word == _END_OF_LINE for word in words])
    rows = len(model.words) + buckets[~np.repeat(whole, counts)]
    counts[whole] = 0
    begins = np.cumsum(counts) - counts
    total = np.zeros((len(words), matrix.shape[1]), np.float32)
    total += matrix[first : first + len(words)]
    for step in range(counts.max()):
        longer = np.flatnonzero(counts > step)
        total[longer] += matrix[rows[begins[longer] + step]]
    total *= (1.0 / (1 + counts)).astype(np.float32)[:, None]
    return total
