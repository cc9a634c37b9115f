"""fastText ``.bin``: a dictionary, then a matrix of rows for words and for buckets of character n-grams.

The vector of a word is the mean of its row and those of its n-grams, as `fasttext.get_word_vector` gives it. Source:
`FastText::saveModel` and `FastText::getWordVector` of fastText 0.9.2. Little-endian::

    int32 magic, version; 12 int32 and a float64 of options;
    int32 entries, words, labels; int64 tokens, pruned; entries: name, NUL, int64 count, int8 kind;
    int8 quantised; int64 rows, columns; float32 numbers; what follows is the output layer
"""

import mmap
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.importers.ngrams import NgramOptions, word_ngrams
from edge_embed.importers.rows import MAX_COLUMNS, MAX_TOKEN_BYTES, decoded
from edge_embed.importers.vectors import Vectors, check_finite, unique_vectors

MAGIC = struct.pack("<i", 793712314)
_VERSIONS = (11, 12)
_OPTIONS = struct.Struct("<2i12id")
_COUNTS = struct.Struct("<3i2q")
_ENTRY = struct.Struct("<qb")  # behind the name
_MATRIX = struct.Struct("<b2q")
_END_OF_LINE = b"</s>"  # has no n-grams
_SUPERVISED = 3
_MOST_CHARACTERS = 64  # of an n-gram
_BLOCK_BYTES = 1 << 16  # of words at once

Numbers = NDArray[np.float32]


@dataclass(frozen=True)
class _Model:
    """The part of a file that words are made of: rows of words, then of buckets."""

    words: list[bytes]
    ngrams: NgramOptions
    matrix: Numbers


def read_fasttext(path: Path) -> Vectors:
    """Read the words of a model; labels, and what makes vectors of other words, are left out.

    Raises:
        BadInputError: it is quantised (``.ftz``), of another version, damaged, or holds numbers that are not finite.
    """
    try:
        with path.open("rb") as file:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        model = _read(content)
    except OSError as error:
        raise BadInputError(f"cannot be read: {error.strerror or error}") from error
    except struct.error as error:
        raise _damaged("it ends too early") from error
    tokens = [decoded(word, f"word {at + 1}") for at, word in enumerate(model.words)]
    table = np.empty((len(tokens), model.matrix.shape[1]), np.float32)
    done = 0
    for words in _blocks(model.words):
        table[done : done + len(words)] = _means(model, words, done)
        done += len(words)
    check_finite(table, lambda row: f"word {row + 1} ({tokens[row]!r:.80})")
    return unique_vectors(table, tokens, path)


def _damaged(what: str) -> BadInputError:
    return BadInputError(f"damaged fastText model: {what}: fetch it again")


def _read(content: mmap.mmap) -> _Model:
    _, version, dim, *_, kind, num_buckets, shortest, longest, _, _ = _OPTIONS.unpack_from(content)
    if version not in _VERSIONS:
        raise BadInputError(f"got a fastText model of version {version}, expected 12: save it with fastText 0.9")
    if kind == _SUPERVISED and version == _VERSIONS[0]:
        longest = 0  # such models have no n-grams, whatever they say
    ngrams = NgramOptions(shortest, longest, num_buckets)
    words, at = _dictionary(content, _OPTIONS.size)
    is_quantised, num_rows, num_columns = _MATRIX.unpack_from(content, at)
    if is_quantised:
        raise BadInputError(
            "is a quantised fastText model (.ftz), whose rows are codes of product quantisation already: take the "
            ".bin that it was made from"
        )
    at += _MATRIX.size
    if min(num_buckets, shortest, longest) < 0 or longest > _MOST_CHARACTERS or (longest > 0 and not num_buckets):
        raise _damaged(f"n-grams of {shortest} to {longest} characters in {num_buckets} buckets")
    if num_columns != dim or not 1 <= dim <= MAX_COLUMNS or num_rows != len(words) + num_buckets:
        raise _damaged(
            f"a matrix of {num_rows} rows of {num_columns}, expected {len(words)} + {num_buckets} rows of {dim}"
        )
    if num_rows * num_columns * 4 > len(content) - at:
        raise _damaged(f"a matrix of {num_rows} rows of {num_columns} does not fit into the file")
    matrix = np.frombuffer(content, "<f4", num_rows * num_columns, at).reshape(num_rows, num_columns)
    return _Model(words, ngrams, matrix)


def _dictionary(content: mmap.mmap, at: int) -> tuple[list[bytes], int]:
    """The words, and where the matrix begins."""
    num_entries, num_words, num_labels, _, num_pruned = _COUNTS.unpack_from(content, at)
    at += _COUNTS.size
    if not 0 < num_words <= num_entries == num_words + num_labels:
        raise _damaged(f"{num_entries} entries, of which {num_words} are words and {num_labels} labels")
    if num_entries * (1 + _ENTRY.size) > len(content) - at:
        raise _damaged(f"{num_entries} entries do not fit into the file")
    words = []
    for entry in range(num_entries):
        end = content.find(b"\0", at, at + MAX_TOKEN_BYTES + 1)
        if end < 0:
            raise _damaged(f"entry {entry + 1} of the dictionary has no end")
        _, is_label = _ENTRY.unpack_from(content, end + 1)
        if is_label != (entry >= num_words):
            raise _damaged(f"entry {entry + 1} of {num_words} words and {num_labels} labels is of kind {is_label}")
        if not is_label:
            words.append(content[at:end])
        at = end + 1 + _ENTRY.size
    if num_pruned > 0:
        raise _damaged("its n-grams are pruned, as of quantised models only")
    return words, at


def _blocks(words: list[bytes]) -> Iterator[list[bytes]]:
    """Words in order, some at a time."""
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


def _means(model: _Model, words: list[bytes], first: int) -> Numbers:
    """The vectors of words, summed up in the order of fastText, for the same bits."""
    buckets, counts = word_ngrams(words, model.ngrams)
    whole = np.array([word == _END_OF_LINE for word in words])
    rows = len(model.words) + buckets[~np.repeat(whole, counts)]
    counts[whole] = 0
    begins = np.cumsum(counts) - counts
    total = np.zeros((len(words), model.matrix.shape[1]), np.float32)
    total += model.matrix[first : first + len(words)]
    for step in range(counts.max()):
        longer = np.flatnonzero(counts > step)
        total[longer] += model.matrix[rows[begins[longer] + step]]
    total *= (1.0 / (1 + counts)).astype(np.float32)[:, None]
    return total
