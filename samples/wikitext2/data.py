"""WikiText-2 as streams of word ids, or another text in the public layout of WikiText or of the Penn Treebank."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

import torch
from datasets import UNKNOWN, folder_of, number_words
from torch import Tensor

_PUBLIC = ("wiki.train.tokens", "ptb.train.txt")  # beside them those of valid and test
_HELD_OUT = 10  # one word in ten, from the end of the text


@dataclass(frozen=True)
class Text:
    """Word ids of each part, int64 [words], in the order of the articles."""

    vocabulary: dict[str, int]
    training: Tensor
    validation: Tensor
    test: Tensor

    def begin(self, most: int) -> "Text":
        """Return the first words of each part."""
        return Text(self.vocabulary, self.training[:most], self.validation[:most], self.test[:most])


def text_folder(data: Path) -> AbstractContextManager[Path]:
    """Return the folder for `read`: that of a text in a public layout, or the unpacked parts of WikiText-2."""
    return folder_of(data, "wikitext2-valtest", *_PUBLIC)


def is_public(folder: Path) -> bool:
    """Return whether a folder holds a text in a public layout."""
    return _training_file(folder) is not None


def read(folder: Path, least: int) -> Text:
    """Read a text in its public layout, or ``wiki.valid`` for training, its end for validation, and ``wiki.test``.

    Args:
        folder: folder with the texts.
        least: less frequent words are unknown; a public text has its own ``<unk>``, so that all its words are known.
    """
    if (whole := _training_file(folder)) is not None:
        parts = [_words(folder / whole.name.replace("train", part)) for part in ("train", "valid", "test")]
        return _numbered(parts, least=1)
    words = _words(folder / "wiki.valid.txt")
    cut = len(words) - len(words) // _HELD_OUT
    return _numbered([words[:cut], words[cut:], _words(folder / "wiki.test.txt")], least)


def _training_file(folder: Path) -> Path | None:
    return next((folder / file for file in _PUBLIC if (folder / file).is_file()), None)


def _numbered(parts: Sequence[Sequence[str]], least: int) -> Text:
    """Return words for training, validation and test as ids."""
    vocabulary = number_words((word for word in parts[0] if word != "<unk>"), least)
    return Text(vocabulary, *(torch.tensor([vocabulary.get(word, UNKNOWN) for word in part]) for part in parts))


def _words(path: Path) -> list[str]:
    """Return the words and signs between spaces of a tokenised text; the end of a line counts as a word."""
    return [word for line in path.read_text(encoding="utf-8").splitlines() for word in (*line.split(), "<eos>")]


def windows(stream: Tensor, length: int) -> Tensor:
    """Cut a stream [words] into rows [rows, length + 1]; the last word of a row begins the next."""
    return stream.unfold(0, length + 1, length)
