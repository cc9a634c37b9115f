"""AG News as rows of word ids, or another set of texts in classes.

The public layout is that of Zhang, Zhao and LeCun, "Character-level Convolutional Networks for Text Classification"
(2015): ``train.csv`` and ``test.csv`` with a class from 1 and texts in each row, without a header. AG News, DBpedia,
Sogou News, Yahoo! Answers, Yelp Polarity and Yelp Full have it.
"""

import csv
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import click
from datasets import folder_of, number_words
from text_task import Texts, encode

_PUBLIC = "train.csv"
_LONGEST = 60  # words read of a text; 19 of 20 texts have no more


def words_of(text: str) -> list[str]:
    """Return words and numbers in lower case."""
    return re.findall(r"[a-z]+|[0-9]+", text.lower())


def news_folder(data: Path) -> AbstractContextManager[Path]:
    """Return the folder for `read`: that of a set in the public layout, or the unpacked part of AG News."""
    return folder_of(data, "agnews20k", _PUBLIC)


def read(folder: Path) -> tuple[dict[str, int], Texts, Texts]:
    """Return ids of the words that occur twice or more in training, the training texts, and the test texts.

    Raises:
        click.ClickException: a row of the public layout has no class, or no text.
    """
    is_public = (folder / _PUBLIC).is_file()
    training = list(_rows(folder / _PUBLIC) if is_public else _training_rows(folder / "train_20k.csv"))
    vocabulary = number_words((word for _, text in training for word in words_of(text)), least=2)
    testing = list(_rows(folder / "test.csv"))
    return vocabulary, _encoded(training, vocabulary), _encoded(testing, vocabulary)


def _training_rows(path: Path) -> Iterator[tuple[int, str]]:
    """Yield class from 1, and text; the table has a header."""
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield int(row["label"]), row["text"]


def _rows(path: Path) -> Iterator[tuple[int, str]]:
    """Yield class from 1, and all texts of a row as one; the table has no header."""
    with path.open(newline="", encoding="utf-8") as file:
        rows = csv.reader(file)
        for label, *texts in filter(None, rows):  # without empty lines
            if not (label.isdecimal() and int(label) and texts):
                got = f"{path}, line {rows.line_num}: got a row that begins with {label!r:.40}"
                raise click.ClickException(f"{got}, expected a class from 1 on and texts, without a header")
            yield int(label), " ".join(texts).replace("\\n", " ")  # two characters stand for the end of a line


def _encoded(rows: list[tuple[int, str]], vocabulary: dict[str, int]) -> Texts:
    return encode([(label - 1, words_of(text)) for label, text in rows], vocabulary, _LONGEST)
