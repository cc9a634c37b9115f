"""AG News as rows of word ids, or another set of texts in classes.

The public layout is that of Zhang, Zhao and LeCun, "Character-level Convolutional Networks for Text Classification"
(2015): ``train.csv`` and ``test.csv`` with a class from 1 and texts in each row, without a header. AG News, DBpedia,
Sogou News, Yahoo! Answers, Yelp Polarity and Yelp Full have it. The public layout of IMDB is that of Maas and others,
"Learning Word Vectors for Sentiment Analysis" (2011): a file for each review in ``train/neg``, ``train/pos`` and so on.
"""

import csv
import io
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import click
from datasets import folder_of, number_words, read_text
from text_task import Texts, encode

_PUBLIC, _REVIEWS = "train.csv", "train/pos"
_SENTIMENTS = ("neg", "pos")
_LONGEST, _MOST = 60, 400  # words read of a text; 19 of 20 texts have no more; of a public set as many, up to 400


Row = tuple[int, str]  # class from 1, text


def words_of(text: str) -> list[str]:
    """Return words and numbers in lower case."""
    return re.findall(r"[a-z]+|[0-9]+", text.lower())


def news_folder(data: Path) -> AbstractContextManager[Path]:
    """Return the folder for `read`: that of a set in the public layout, or the unpacked part of AG News."""
    return folder_of(data, "agnews20k", _PUBLIC, _REVIEWS)


def read(folder: Path) -> tuple[dict[str, int], Texts, Texts]:
    """Return ids of the words that occur twice or more in training, the training texts, and the test texts.

    Raises:
        click.ClickException: a row of the public layout has no class, no text, or no end, or a part has no texts.
    """
    parts, is_public = _parts(folder)
    training, testing = ([(label - 1, words_of(text)) for label, text in part] for part in parts)
    for part, rows in (("training", training), ("test", testing)):
        if not rows:
            raise click.ClickException(f"{folder}: got no texts for {part}, expected some")
    most, tested = (1 + max(label for label, _ in rows) for rows in (training, testing))
    if tested > most:
        raise click.ClickException(f"{folder}: got class {tested} in the test, expected at most {most}, as in training")
    vocabulary = number_words((word for _, words in training for word in words), least=2)
    longest = _covering(training) if is_public else _LONGEST
    return vocabulary, encode(training, vocabulary, longest), encode(testing, vocabulary, longest)


def _parts(folder: Path) -> tuple[tuple[Iterator[Row], Iterator[Row]], bool]:
    """Return rows for training and test, and whether the layout is public."""
    if (folder / _PUBLIC).is_file():
        return (_rows(folder / _PUBLIC), _rows(folder / "test.csv")), True
    if (folder / _REVIEWS).is_dir():
        return (_reviews(folder / "train"), _reviews(folder / "test")), True
    return (_training_rows(folder / "train_20k.csv"), _rows(folder / "test.csv")), False


def _covering(rows: list[tuple[int, list[str]]]) -> int:
    """Return the number of words that 19 of 20 texts do not exceed, at most 400."""
    lengths = sorted(len(words) for _, words in rows)
    return max(1, min(_MOST, lengths[-(len(lengths) // 20) - 1]))


def _reviews(folder: Path) -> Iterator[Row]:
    """Yield class from 1, and text, of the files of both sentiments."""
    for label, name in enumerate(_SENTIMENTS, 1):
        (folder / name).stat()  # which must be there, even if it is empty
        for path in sorted((folder / name).glob("*.txt")):
            yield label, read_text(path).replace("<br />", " ")


def _training_rows(path: Path) -> Iterator[Row]:
    """Yield class from 1, and text; the table has a header."""
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            yield int(row["label"]), row["text"]


def _rows(path: Path) -> Iterator[Row]:
    """Yield class from 1, and all texts of a row as one; the table has no header."""
    rows = csv.reader(io.StringIO(read_text(path), newline=""), strict=True)
    try:
        for label, *texts in filter(None, rows):  # without empty lines
            if not (label.isdecimal() and int(label) and texts):
                got = f"{path}, line {rows.line_num}: got a row that begins with {label!r:.40}"
                raise click.ClickException(f"{got}, expected a class from 1 on and texts, without a header")
            yield int(label), " ".join(texts).replace("\\n", " ")  # two characters stand for the end of a line
    except csv.Error as error:
        got = f"{path}, line {rows.line_num}: got {error}"
        raise click.ClickException(
            f"{got}, expected texts in quotes that end, of at most 131,072 characters"
        ) from error
