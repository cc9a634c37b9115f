"""Inflection: the data, and which forms count as right."""

from pathlib import Path

import pytest
import torch
from inflection.data import read
from inflection.task import InflectionTask
from multi30k.data import Corpus, Pairs
from torch import Tensor, nn
from torch.nn import functional


class TestData:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        for language in ("finnish", "spanish", "turkish"):
            for part in ("train-high", "dev", "test"):
                lines = "Va\tVan V\tV;PL\n" if part == "train-high" else "ab\tñ\tV\n"
                (tmp_path / f"{language}-{part}").write_text(lines, encoding="utf-8")
        return tmp_path

    def test_words_are_read_as_language_features_and_letters(self, folder: Path) -> None:
        corpus = read(folder)
        names = list(corpus.source_vocabulary)
        assert [names[at] for at in corpus.training.source[1]] == ["<spanish>", "<V>", "<PL>", "V", "a"]
        letters = list(corpus.target_vocabulary)
        assert [letters[at] for at in corpus.training.target[0]] == ["<s>", "V", "a", "n", " ", "V", "</s>"]

    def test_unknown_letter_stays_in_reference(self, folder: Path) -> None:
        corpus = read(folder)
        assert corpus.test.target[0].tolist() == [corpus.target_vocabulary["<s>"], 1, corpus.target_vocabulary["</s>"]]
        assert corpus.references == ["ñ"] * 3

    def test_words_may_be_read_in_part(self, folder: Path) -> None:
        (folder / "finnish-dev").write_text("a\tb\tV\nc\td\tV\n", encoding="utf-8")
        assert len(read(folder, most=1).validation) == 3


class Copy(nn.Module):
    """Gives the letters of the word, and then the end."""

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        ended = torch.full((len(source), 1), 3)
        following = torch.cat([source.masked_fill(source == 0, 3), ended], 1)[:, : target.shape[1]]
        return functional.one_hot(following, 6).float()


def test_form_with_one_wrong_letter_is_wrong() -> None:
    vocabulary = {symbol: at for at, symbol in enumerate(["<pad>", "<unk>", "<s>", "</s>", "a", "b"])}
    words = torch.tensor([[4, 5, 4], [4, 5, 0], [5, 0, 0], [4, 4, 5]])
    pairs = Pairs(words, words)
    task = InflectionTask(Corpus(vocabulary, vocabulary, pairs, pairs, pairs, ["aba", "ab", "a", "aabb"]))
    assert task.accuracy(Copy()) == 50  # type: ignore[arg-type]
