"""AG News as rows of word ids."""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

from datasets import number_words
from text_task import Texts, encode

_LONGEST = 60  # words read of a text; 19 of 20 texts have no more


def words_of(text: str) -> list[str]:
    """Return words and numbers in lower case."""
    return re.findall(r"[a-z]+|[0-9]+", text.lower())


def read(folder: Path) -> tuple[dict[str, int], Texts, Texts]:
    """Return ids of the words that occur twice or more in training, the training texts, and the test texts."""
    training = list(_training_rows(folder / "train_20k.csv"))
    vocabulary = number_words((word for _, text in training for word in words_of(text)), least=2)
    testing = list(_test_rows(folder / "test.csv"))
    return vocabulary, _encoded(training, vocabulary), _encoded(testing, vocabulary)


def _training_rows(path: Path) -> Iterator[tuple[int, str]]:
    """Yield class from 1, and text; the table has a header."""
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield int(row["label"]), row["text"]


def _test_rows(path: Path) -> Iterator[tuple[int, str]]:
    """Yield class from 1, and title with description; the table has no header."""
    with path.open(newline="", encoding="utf-8") as file:
        for label, title, description in csv.reader(file):
            yield int(label), f"{title} {description}"


def _encoded(rows: list[tuple[int, str]], vocabulary: dict[str, int]) -> Texts:
    return encode([(label - 1, words_of(text)) for label, text in rows], vocabulary, _LONGEST)
