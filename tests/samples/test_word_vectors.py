"""Figures of word vectors: questions and pairs of known words, and answers by the cosine."""

from pathlib import Path

import torch
from tiers.word_vectors import _pairs, _questions, _score

WORDS = {"king": 0, "man": 1, "woman": 2, "queen": 3, "tea": 4}


def test_pairs_are_those_of_known_words(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    file.write_text("# by people\n# Word 1\tWord 2\tHuman (mean)\nKing\tqueen\t8.5\nking\tcup\t1\ntea\tman\t0.25\n")
    pairs, people = _pairs(file, WORDS)
    assert pairs.tolist() == [[0, 3], [4, 1]]
    assert people.tolist() == [8.5, 0.25]


def test_questions_are_those_of_known_words(tmp_path: Path) -> None:
    file = tmp_path / "questions.txt"
    file.write_text(": family\nman Woman king Queen\nman woman boy girl\n")
    assert _questions(file, WORDS).tolist() == [[1, 2, 0, 3]]


def test_answer_is_none_of_the_given_words() -> None:
    """The nearest row of woman - man + king is that of king, which is given."""
    rows = torch.nn.functional.normalize(torch.tensor([[1, 0.0], [0, 1], [0.1, 1], [1, 0.3], [-1, 0]]))
    nearest = (rows[2] - rows[1] + rows[0]) @ rows.T
    assert int(nearest.argmax()) == 0
    assert _score(rows, torch.tensor([[1, 2, 0, 3], [1, 2, 0, 4]])) == 0.5
