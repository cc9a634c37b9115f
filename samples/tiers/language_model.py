"""Output layer and input table of the language model of the Penn Treebank.

Its own text is not public. Counts are those of the business news among the training texts of AG News. Figures are
measured on the business news among the test texts, in the spelling of the Penn Treebank. Counts of another domain are
those of WikiText-2.
"""

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from datasets import unpacked
from divergence import divergence, same_choice
from options import Options
from pretrained.language_model import LanguageModel, business_news, load, word_ids
from torch import Tensor, nn

from tiers.case import Case, Judge

_WORDS, _QUICK_WORDS = 10_000, 1_000
_LENGTH = 250
_BUSINESS = "3"


def cases(options: Options) -> Iterator[Case]:
    """Yield the output layer and the input table."""
    with (
        unpacked(options.data, "ptb-rnnlm") as folder,
        unpacked(options.data, "agnews20k") as news,
        unpacked(options.data, "wikitext2-valtest") as wiki,
    ):
        model = load(folder / "ptb_rnnlm_100.npz")
        words = (folder / "ptb_vocab_by_id.txt").read_text(encoding="utf-8").split()
        text = business_news(news / "test.csv", words, _QUICK_WORDS if options.quick else _WORDS)
        counts = torch.tensor(training_words(news / "train_20k.csv", words)).bincount(minlength=len(words))
        others = counts_of((wiki / "wiki.valid.txt").read_text(encoding="utf-8").splitlines(), words)
    judge = judge_of(model, text)
    for name, layer in (("PTB output layer", "output"), ("PTB input table", "table")):
        yield Case(name, model, {layer: counts}, judge, other_counts={layer: others}, example=(text[None, :2],))


def training_words(path: Path, words: list[str]) -> list[int]:
    """Return the ids of all words of the business texts among the training texts."""
    with path.open(newline="", encoding="utf-8") as file:
        return word_ids([row["text"] for row in csv.DictReader(file) if row["label"] == _BUSINESS], words)


def counts_of(texts: Iterable[str], words: list[str]) -> Tensor:
    """Return the occurrences of words in texts, [words]."""
    return torch.tensor(word_ids(texts, words)).bincount(minlength=len(words))


def judge_of(model: LanguageModel, text: Tensor) -> Judge:
    """Return a function that compares a model with the dense one on words [m]."""
    rows = text[: len(text) // _LENGTH * _LENGTH].view(-1, _LENGTH)  # [rows, 250]
    with torch.no_grad():
        expected = model(rows).flatten(0, 1)  # [m, words]

    def judge(tried: nn.Module) -> dict[str, float]:
        found = tried(rows).flatten(0, 1)
        return {"KL": divergence(expected, found), "top-1": same_choice(expected, found)}

    return judge
