"""What fastText ``.bin`` and ``.ftz`` begin with: options, and a dictionary; behind it is a matrix of rows.

There is a row for each word, then one for each bucket of n-grams; of a quantised model some rows may have been pruned,
whose words are gone from the dictionary, and which lists the buckets that are left. Source: `FastText::saveModel` and
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
_ENTRY = struct.Struct("<qb")  # behind the name
PRUNED = struct.Struct("<2i")
_FLAG = struct.Struct("<b")
_SUPERVISED = 3
_LOSSES = {1: "hs", 2: "ns", 3: "softmax", 4: "ova"}
_MOST_CHARACTERS = 64  # of an n-gram


@dataclass(frozen=True)
class Training:
    """What a model was trained for.

    Attributes:
        is_supervised: whether it classifies.
        loss: ``hs``, ``ns``, ``softmax`` or ``ova``.
        num_labels: of a classifier.
        label_bytes: that their names and counts take in the file.
        most_word_ngrams: words of an n-gram of words, 1 for none.
        num_pruned: buckets that are left of a pruned model, each listed with its row; -1 for all.
    """

    is_supervised: bool
    loss: str
    num_labels: int
    label_bytes: int
    most_word_ngrams: int
    num_pruned: int


@dataclass(frozen=True)
class FastTextModel:
    """What a model says before its matrix.

    Attributes:
        path: of the file.
        file: where the matrix begins.
        words: of the first rows.
        ngrams: of the other words.
        num_rows: of words and of buckets that are left.
        num_columns: of a row.
        is_quantised: whether the matrix is, as in ``.ftz``.
        training: what the rest of the file was trained for.
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
        """The words as text, None for one that is to be left out.

        Raises:
            BadInputError: one is no UTF-8, and that is not allowed for.
        """
        return [decoded(word, f"word {at + 1}", errors) for at, word in enumerate(self.words)]

    def check_matrix(self, num_rows: int, num_columns: int) -> None:
        """Refuse a matrix that is not of this dictionary and these options.

        Raises:
            BadInputError: says what was expected.
        """
        if (num_rows, num_columns) != (self.num_rows, self.num_columns):
            buckets = self.num_rows - len(self.words)
            raise damaged(
                f"a matrix of {num_rows} rows of {num_columns}, expected {len(self.words)} + {buckets} rows of "
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
        longest = 0  # such models have no n-grams, whatever they say
    words, label_bytes, num_labels, num_pruned = _dictionary(file)
    (is_quantised,) = file.numbers(_FLAG)
    if num_pruned >= 0 and not is_quantised:
        raise damaged("its n-grams are pruned, as of quantised models only")
    if min(num_buckets, shortest, longest) < 0 or longest > _MOST_CHARACTERS or (longest > 0 and not num_buckets):
        raise damaged(f"n-grams of {shortest} to {longest} characters in {num_buckets} buckets")
    if not 1 <= dim <= MAX_COLUMNS:
        raise damaged(f"rows of {dim} numbers, expected 1 to {MAX_COLUMNS}")
    num_rows = len(words) + (num_buckets if num_pruned < 0 else num_pruned)
    ngrams = NgramOptions(shortest, longest, num_buckets)
    training = Training(
        kind == _SUPERVISED, _LOSSES.get(loss, f"loss {loss}"), num_labels, label_bytes, word_ngrams, num_pruned
    )
    return FastTextModel(path, file, words, ngrams, num_rows, dim, bool(is_quantised), training)


def _dictionary(file: FastTextFile) -> tuple[list[bytes], int, int, int]:
    """The words, bytes and number of the labels, and how many buckets are left, -1 for all."""
    num_entries, num_words, num_labels, _, num_pruned = file.numbers(_COUNTS)
    if not 0 < num_words <= num_entries == num_words + num_labels:
        raise damaged(f"{num_entries} entries, of which {num_words} are words and {num_labels} labels")
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
            raise damaged(f"entry {entry + 1} of {num_words} words and {num_labels} labels is of kind {is_label}")
        if is_label:
            label_bytes += len(name) + 1 + _ENTRY.size
        else:
            words.append(name)
    # Which row is of which bucket only matters for words that are not in the dictionary.
    file.array("u1", max(0, num_pruned) * PRUNED.size, f"a list of {num_pruned} buckets")
    return words, label_bytes, num_labels, num_pruned
