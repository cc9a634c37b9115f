"""First part of fastText ``.bin`` and ``.ftz`` files: options and a dictionary, before the matrix of rows.

There is a row for each word, then one for each bucket of n-grams. In a quantised model some rows may have been pruned.
Their words are missing from the dictionary, which lists the remaining buckets. Source: `FastText::saveModel` and
`Dictionary::save` of fastText 0.9.2. Little-endian::

    int32 magic, version; 12 int32 and a float64 of options;
    int32 entries, words, labels; int64 tokens, pruned; entries: name, NUL, int64 count, int8 kind;
    pruned times, if it is not -1: int32 bucket, row; int8 quantised
"""

import struct
from dataclasses import dataclass
from pathlib import Path

from edge_embed.errors import BadInputError
from edge_embed.importers.fasttext_file import FastTextFile, damaged
from edge_embed.importers.ngrams import NgramOptions
from edge_embed.importers.reading_options import EncodingErrors
from edge_embed.importers.row_tokens import MAX_COLUMNS, decoded

MAGIC = struct.pack("<i", 793712314)
_VERSIONS = (11, 12)
_OPTIONS = struct.Struct("<2i12id")
_COUNTS = struct.Struct("<3i2q")
_ENTRY = struct.Struct("<qb")  # after the name
PRUNED = struct.Struct("<2i")
_FLAG = struct.Struct("<b")
_SUPERVISED = 3
_LOSSES = {1: "hs", 2: "ns", 3: "softmax", 4: "ova"}
_MOST_CHARACTERS = 64  # of an n-gram


@dataclass(frozen=True)
class Training:
    """Training task of a model.

    Attributes:
        is_supervised: whether it is a classifier.
        loss: ``hs``, ``ns``, ``softmax`` or ``ova``.
        num_labels: number of labels of a classifier.
        label_bytes: bytes of their names and counts in the file.
        most_word_ngrams: maximum number of words of a word n-gram, 1 for none.
        num_pruned: number of remaining buckets of a pruned model, each listed with its row; -1 for all.
    """

    is_supervised: bool
    loss: str
    num_labels: int
    label_bytes: int
    most_word_ngrams: int
    num_pruned: int


@dataclass(frozen=True)
class FastTextModel:
    """Content of a model before its matrix.

    Attributes:
        path: the file.
        file: reader at the beginning of the matrix.
        words: words of the first rows.
        ngrams: options for n-grams of other words.
        num_rows: number of rows of words and remaining buckets.
        num_columns: columns of a row.
        is_quantised: whether the matrix is quantised, as in ``.ftz``.
        training: training task, which determines the rest of the file.
    """

    path: Path
    file: FastTextFile
    words: list[bytes]
    ngrams: NgramOptions
    num_rows: int
    num_columns: int
    is_quantised: bool
    training: Training

    def tokens(self, errors: EncodingErrors = "strict") -> list[str | None]:
        """Return the words as text, None for a word that is left out.

        Raises:
            BadInputError: a word is not UTF-8 and ``errors`` is ``strict``.
        """
        return [decoded(word, f"word {at + 1}", errors) for at, word in enumerate(self.words)]

    def check_matrix(self, num_rows: int, num_columns: int) -> None:
        """Raise unless the size of the matrix fits the dictionary and the options.

        Raises:
            BadInputError: the message names the expected size.
        """
        if (num_rows, num_columns) != (self.num_rows, self.num_columns):
            buckets = self.num_rows - len(self.words)
            raise damaged(
                f"got a matrix of {num_rows} rows of {num_columns}, expected {len(self.words)} + {buckets} rows of "
                f"{self.num_columns}"
            )


def read_model(path: Path) -> FastTextModel:
    """Read a model up to its matrix.

    Raises:
        BadInputError: it is of another version, or damaged.
    """
    file = FastTextFile(path)
    _, version, dim, _, _, _, _, word_ngrams, loss, kind, num_buckets, shortest, longest, _, _ = file.numbers(_OPTIONS)
    if version not in _VERSIONS:
        raise BadInputError(f"got a fastText model of version {version}, expected 12: save it with fastText 0.9")
    if kind == _SUPERVISED and version == _VERSIONS[0]:
        longest = 0  # such models have no n-grams, even if the options say so
    words, label_bytes, num_labels, num_pruned = _dictionary(file)
    (is_quantised,) = file.numbers(_FLAG)
    if num_pruned >= 0 and not is_quantised:
        raise damaged("its n-grams are pruned, expected for quantised models only")
    if min(num_buckets, shortest, longest) < 0 or longest > _MOST_CHARACTERS or (longest > 0 and not num_buckets):
        raise damaged(f"got n-grams of {shortest} to {longest} characters in {num_buckets} buckets")
    if not 1 <= dim <= MAX_COLUMNS:
        raise damaged(f"got rows of {dim} numbers, expected 1 to {MAX_COLUMNS}")
    num_rows = len(words) + (num_buckets if num_pruned < 0 else num_pruned)
    ngrams = NgramOptions(shortest, longest, num_buckets)
    training = Training(
        kind == _SUPERVISED, _LOSSES.get(loss, f"loss {loss}"), num_labels, label_bytes, word_ngrams, num_pruned
    )
    return FastTextModel(path, file, words, ngrams, num_rows, dim, bool(is_quantised), training)


def _dictionary(file: FastTextFile) -> tuple[list[bytes], int, int, int]:
    """Return words, bytes and number of labels, and the number of remaining buckets, -1 for all."""
    num_entries, num_words, num_labels, _, num_pruned = file.numbers(_COUNTS)
    if not 0 < num_words <= num_entries == num_words + num_labels:
        raise damaged(f"got {num_entries} entries, expected the sum of {num_words} words and {num_labels} labels")
    if num_entries * (1 + _ENTRY.size) > file.left:
        raise damaged(f"{num_entries} entries do not fit into the file")
    words = []
    label_bytes = 0
    for entry in range(num_entries):
        name = file.name()
        if name is None:
            raise damaged(f"entry {entry + 1} of the dictionary has no end")
        _, is_label = file.numbers(_ENTRY)
        if is_label != (entry >= num_words):
            raise damaged(f"entry {entry + 1} of {num_words} words and {num_labels} labels has kind {is_label}")
        if is_label:
            label_bytes += len(name) + 1 + _ENTRY.size
        else:
            words.append(name)
    # The bucket of each row only matters for words outside the dictionary.
    file.array("u1", max(0, num_pruned) * PRUNED.size, f"a list of {num_pruned} buckets")
    return words, label_bytes, num_labels, num_pruned
