"""Language model from another author, trained on the Penn Treebank; its arrays are loaded into torch layers."""

import csv
import html
import math
import re
from collections.abc import Container, Iterable, Iterator
from pathlib import Path

import numpy as np
import torch
from divergence import divergence, same_choice
from torch import Tensor, nn
from torch.nn import functional

_WIDTH = 100
# The arrays hold the gates in the order forget, candidate, input, output; torch uses input, forget, candidate, output.
# (Other orders give the same shapes and a perplexity that is up to 14 times as high.)
_GATES = (2, 0, 1, 3)
_LENGTH = 500
_BUSINESS = "3"
_CODE = re.compile(r" ?(?<!&)(#\d+|quot);")  # of a character; the texts have lost the & before it
_NO_WORD = re.compile(r"<[^>]*(?:>|$)|\.{2,}")  # tags, also cut ones, and dots
_ENDING = re.compile(r"(n't|'(?:s|re|ve|ll|d|m))\b")
_TOKEN = re.compile(r"n't|'[a-z]+|[a-z0-9][a-z0-9&.$-]*|[$&.]")
_NUMBER = re.compile(r"\d[\d.]*")


class LanguageModel(nn.Module):
    """Scores of the next word after every word: embedding, LSTM and an output layer with its own table.

    Args:
        table: layer that looks up rows [*, 100] of ids [*].
        output: layer that computes logits [*, 10,000] of states [*, 100].
    """

    def __init__(self, table: nn.Module, output: nn.Module) -> None:
        super().__init__()
        self.table = table
        self.lstm = nn.LSTM(_WIDTH, _WIDTH, batch_first=True)
        self.output = output

    def forward(self, ids: Tensor) -> Tensor:
        """Return logits [batch, words, 10,000] of integers [batch, words]."""
        states, _ = self.lstm(self.table(ids))  # [batch, words, 100]
        logits: Tensor = self.output(states)
        return logits


def load(path: Path) -> LanguageModel:
    """Return the model of ``ptb_rnnlm_100.npz``, dense, in eval mode."""
    with np.load(path) as stored:
        arrays = {name: torch.from_numpy(stored[name].astype(np.float32)) for name in stored.files}
    words, width = arrays["embed"].shape
    model = LanguageModel(nn.Embedding.from_pretrained(arrays["embed"]), nn.Linear(width, words))
    weights = {
        "lstm.weight_ih_l0": _gates(arrays["lstm_Wx"]).t(),
        "lstm.weight_hh_l0": _gates(arrays["lstm_Wh"]).t(),
        "lstm.bias_ih_l0": _gates(arrays["lstm_b"]),
        "lstm.bias_hh_l0": torch.zeros(4 * width),
        "output.weight": arrays["affine_W"].t(),
        "output.bias": arrays["affine_b"],
    }
    model.load_state_dict({"table.weight": arrays["embed"], **weights})
    return model.eval()


def _gates(array: Tensor) -> Tensor:
    """Return gates in torch's order: [*, 400] -> [*, 400]."""
    blocks = array.split(_WIDTH, dim=-1)
    return torch.cat([blocks[gate] for gate in _GATES], dim=-1)


def business_news(path: Path, words: list[str], limit: int) -> Tensor:
    """Return the first words of the business texts of AG News, ids int64 [limit], spelled as in the Penn Treebank.

    This is the available text that is closest to the model's own, the Wall Street Journal.
    """
    with path.open(newline="", encoding="utf-8") as file:
        texts = [text for label, _, text in csv.reader(file) if label == _BUSINESS]
    return torch.tensor(word_ids(texts, words)[:limit])


def word_ids(texts: Iterable[str], words: list[str]) -> list[int]:
    """Return the ids of all words of texts."""
    number = {word: at for at, word in enumerate(words)}
    return [number.get(word, number["<unk>"]) for text in texts for word in treebank_words(text, number)]


def treebank_words(text: str, known: Container[str]) -> list[str]:
    """Return the words of a text of AG News as the Penn Treebank spells them, with <eos> after each sentence.

    Words are in lower case, numbers are N, and "don't" is two words. A period belongs to an abbreviation, such as
    "corp.", if it is among the known words. Signs are left out, except for $ and &.
    """
    plain = html.unescape(_CODE.sub(r"&\1;", text.lower())).replace(",", "")
    plain = _ENDING.sub(r" \1 ", _NO_WORD.sub(" ", plain))
    words = [word for token in _TOKEN.findall(plain) for word in _spelled(token, known)]
    return words if words[-1:] == ["<eos>"] else [*words, "<eos>"]


def _spelled(token: str, known: Container[str]) -> Iterator[str]:
    """Yield a word or number, and <eos> for a period behind it."""
    word = token if token in known else token.rstrip(".-")
    if word:
        yield "N" if word not in known and _NUMBER.fullmatch(word) else word
    if "." in token[len(word) :]:
        yield "<eos>"


@torch.no_grad()
def perplexity(model: nn.Module, words: Tensor) -> float:
    """Return the perplexity of words [n], in independent rows of 500."""
    losses = [functional.cross_entropy(model(row[None, :-1])[0], row[1:]) for row in _rows(words)]
    return math.exp(float(torch.stack(losses).mean()))


@torch.no_grad()
def changes(model: nn.Module, dense: nn.Module, words: Tensor) -> dict[str, float]:
    """Return the KL divergence from the dense model, and how often both predict the same word, after words [n]."""
    found = []
    for row in _rows(words):
        expected, given = (tried(row[None, :-1])[0] for tried in (dense, model))  # [500, 10,000]
        found.append((divergence(expected, given), same_choice(expected, given)))
    return dict(zip(("KL", "same word"), np.mean(found, 0).tolist(), strict=True))


def _rows(words: Tensor) -> Tensor:
    """Return independent rows of 500 words, and the word after each of them."""
    return words.unfold(0, _LENGTH + 1, _LENGTH)
