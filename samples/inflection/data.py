"""SIGMORPHON 2018, task 1: words, their grammatical features and inflected forms, as rows of ids."""

from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import torch
from datasets import PADDING, UNKNOWN, number_words
from multi30k.data import BEGIN, END, Corpus, Pairs
from torch.nn.utils.rnn import pad_sequence

LANGUAGES = ("finnish", "spanish", "turkish")
_PARTS = {"training": "train-high", "validation": "dev", "test": "test"}

Word = tuple[list[str], list[str]]  # language, features and letters of a word; letters of the inflected form


def read(folder: Path, most: int | None = None) -> Corpus:
    """Read the words of all languages as pairs: language, features and letters, and the letters of the inflected form.

    Args:
        folder: folder with the parts of each language.
        most: maximum number of words of each part and language.

    Returns:
        Pairs whose references are the inflected forms.
    """
    words = {
        part: [w for name in LANGUAGES for w in _read(folder, name, suffix)[:most]] for part, suffix in _PARTS.items()
    }
    source, target = (number_words(chain(*(word[at] for word in words["training"])), 1) for at in (0, 1))
    parts = {part: Pairs(_encoded(found, source, 0), _encoded(found, target, 1)) for part, found in words.items()}
    references = ["".join(form[1:-1]) for _, form in words["test"]]
    return Corpus(source, target, **parts, references=references)


def _read(folder: Path, language: str, part: str) -> list[Word]:
    lines = (folder / f"{language}-{part}").read_text(encoding="utf-8").splitlines()
    words = (line.split("\t") for line in lines if line)
    return [
        ([f"<{name}>" for name in (language, *features.split(";"))] + [*word], [BEGIN, *form, END])
        for word, form, features in words
    ]


def _encoded(words: Sequence[Word], vocabulary: dict[str, int], side: int) -> torch.Tensor:
    rows = [torch.tensor([vocabulary.get(symbol, UNKNOWN) for symbol in word[side]]) for word in words]
    return pad_sequence(rows, batch_first=True, padding_value=PADDING)
