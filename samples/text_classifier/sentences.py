"""Sentences of film reviews and their sentiment: SST-2, or a few thousand synthetic ones without the data set."""

import csv
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

from datasets import unpacked

LABELS = ("blame", "praise")
SST2 = "sst2-glue"
_MADE_HELD_OUT = 400

Sentence = tuple[int, str]  # index of a label, text


@dataclass(frozen=True)
class Sentences:
    """Sentences for training and for the test.

    Attributes:
        name: name of the source.
        training: training sentences, in any order.
        testing: test sentences, none of which is in ``training``.
    """

    name: str
    training: Sequence[Sentence]
    testing: Sequence[Sentence]


def read(data: Path | None) -> Sentences:
    """Return SST-2 from the folder with the archives, or synthetic sentences without a folder."""
    if data is None:
        return made()
    with unpacked(data, SST2) as folder:
        return Sentences("SST-2", list(_rows(folder / "train.tsv")), list(_rows(folder / "dev872.tsv")))


def _rows(path: Path) -> Iterator[Sentence]:
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            yield int(row["label"]), row["sentence"]


_SUBJECTS = "film|movie|plot|cast|script|music|ending|first half|second half|camera work|dialogue|leading actor".split(
    "|"
)
_FRAMES = (
    "the {subject} is {degree}{word}",
    "i found the {subject} {degree}{word} .",
    "with its {degree}{word} {subject} , it stays in mind",
    "what a {word} {subject} !",
    "nobody would call the {subject} {opposite}",
    "the {subject} is not {opposite} , it is {degree}{word}",
)
_DEGREES = ("", "very ", "rather ", "truly ", "so ")
_WORDS = (
    "dull boring tedious awful clumsy lifeless shallow confused bland painful".split(),
    "great charming clever moving brilliant lively deep funny warm wonderful".split(),
)


def made() -> Sentences:
    """Return sentences of a few words and frames, always the same; some contain a negation."""
    sentences = [
        (label, frame.format(subject=subject, degree=degree, word=word, opposite=opposite))
        for label in range(len(LABELS))
        for frame, subject, degree in product(_FRAMES, _SUBJECTS, _DEGREES)
        for word, opposite in zip(_WORDS[label], _WORDS[1 - label], strict=True)
    ]
    distinct = list(dict.fromkeys(sentences))
    random.Random(0).shuffle(distinct)
    return Sentences("made sentences", distinct[_MADE_HELD_OUT:], distinct[:_MADE_HELD_OUT])
