"""Multi30k: short descriptions of pictures, in English and German, as rows of word ids, or other pairs of languages."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import click
import torch
from datasets import PADDING, UNKNOWN, folder_of, number_words
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from multi30k.bitext import PUBLIC, Pair, is_public, pairs_of
from multi30k.model import PLACES

BEGIN, END = "<s>", "</s>"  # around each translation
_FILES = {"training": "train", "validation": "val", "test": "test_2016_flickr"}
_LONGEST = 12  # maximum of words: an epoch of all pairs would take minutes; public pairs are as long as places allow
_LEAST = 3  # less frequent words are unknown


@dataclass(frozen=True)
class Pairs:
    """Sentences and their translations, each int64 [pairs, words], padded at the end."""

    source: Tensor
    target: Tensor

    def __getitem__(self, index: slice | Tensor) -> "Pairs":
        return Pairs(self.source[index], self.target[index])

    def __len__(self) -> int:
        return len(self.source)


@dataclass(frozen=True)
class Corpus:
    """All parts, the ids by word of both languages, and the translations of the test part with their rare words."""

    source_vocabulary: dict[str, int]
    target_vocabulary: dict[str, int]
    training: Pairs
    validation: Pairs
    test: Pairs
    references: Sequence[str]


def text_folder(data: Path) -> AbstractContextManager[Path]:
    """Return the folder for `read`: that of pairs in a public layout, or the unpacked Multi30k."""
    return folder_of(data, "multi30k", *PUBLIC)


def read(folder: Path, most: int | None = None) -> Corpus:
    """Read the texts, which are in lower case with spaces between words, or pairs in a public layout.

    Args:
        folder: folder with both languages of each part.
        most: maximum number of pairs of each part.

    Returns:
        Pairs of at most twelve words in each language; of a public layout at most 30.

    Raises:
        click.ClickException: a file of a public layout is missing, or has another number of sentences.
    """
    pairs, longest = (
        (pairs_of(folder), PLACES - len((BEGIN, END)))
        if is_public(folder)
        else ({part: _own(folder, part) for part in _FILES}, _LONGEST)
    )
    texts = {part: _short(own, longest)[:most] for part, own in pairs.items()}
    for part, short in texts.items():
        if not short:
            raise click.ClickException(f"{folder}: got no pairs of at most {longest} words for {part}, expected some")
    sides = ([pair[at] for pair in texts["training"]] for at in (0, 1))
    source, target = (number_words(chain(*sentences), _LEAST) for sentences in sides)
    parts = {part: Pairs(*map(_encode, zip(*pairs, strict=True), (source, target))) for part, pairs in texts.items()}
    references = [" ".join(words[1:-1]) for _, words in texts["test"]]
    return Corpus(source, target, **parts, references=references)


def _own(folder: Path, part: str) -> list[Pair]:
    """Return the words of both languages of Multi30k."""
    paths = [folder / f"{_FILES[part]}.lc.norm.tok.{language}" for language in ("en", "de")]
    lines = zip(*(path.read_text(encoding="utf-8").splitlines() for path in paths), strict=True)
    return [(english.split(), german.split()) for english, german in lines]


def _short(pairs: Sequence[Pair], longest: int) -> list[Pair]:
    """Return each pair that is short enough, with the marks of its translation."""
    return [(source, [BEGIN, *target, END]) for source, target in pairs if max(len(source), len(target)) <= longest]


def _encode(sentences: Sequence[list[str]], vocabulary: dict[str, int]) -> Tensor:
    rows = [torch.tensor([vocabulary.get(word, UNKNOWN) for word in words]) for words in sentences]
    return pad_sequence(rows, batch_first=True, padding_value=PADDING)
