"""WikiText-2 as streams of word ids."""

from dataclasses import dataclass
from pathlib import Path

import torch
from datasets import UNKNOWN, number_words
from torch import Tensor

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


def read(folder: Path, least: int) -> Text:
    """Read ``wiki.valid`` for training, except its end for validation, and ``wiki.test`` for the test.

    Args:
        folder: folder with both texts.
        least: less frequent words are unknown.
    """
    words = _words(folder / "wiki.valid.txt")
    cut = len(words) - len(words) // _HELD_OUT
    vocabulary = number_words((word for word in words[:cut] if word != "<unk>"), least)
    parts = words[:cut], words[cut:], _words(folder / "wiki.test.txt")
    return Text(vocabulary, *(torch.tensor([vocabulary.get(word, UNKNOWN) for word in part]) for part in parts))


def _words(path: Path) -> list[str]:
    """Return the words and signs between spaces of a tokenised text; the end of a line counts as a word."""
    return [word for line in path.read_text(encoding="utf-8").splitlines() for word in (*line.split(), "<eos>")]


def windows(stream: Tensor, length: int) -> Tensor:
    """Cut a stream [words] into rows [rows, length + 1]; the last word of a row begins the next."""
    return stream.unfold(0, length + 1, length)
