"""Language model from another author, trained on the Penn Treebank; its arrays are loaded into torch layers."""

import csv
import math
import re
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

    This is the available text that is closest to the model's own, the Wall Street Journal: lower case, N for numbers,
    no signs, <eos> between sentences.
    """
    number = {word: at for at, word in enumerate(words)}
    ids: list[int] = []
    with path.open(newline="", encoding="utf-8") as file:
        for label, _, text in csv.reader(file):
            if label == _BUSINESS:
                ids += [number.get(word, number["<unk>"]) for word in treebank_words(text)]
    return torch.tensor(ids[:limit])


def treebank_words(text: str) -> list[str]:
    """Return the words of a text, with <eos> after each sentence."""
    plain = re.sub(r" #39;", "'", text.lower())
    plain = re.sub(r" quot;| #\d+;|\\", " ", plain)  # remains of HTML and of line ends
    words = re.findall(r"[a-z]+(?:-[a-z]+)*|'s|\$|\d[\d.,]*|\.", plain)
    words = ["N" if word[0].isdigit() else "<eos>" if word == "." else word for word in words]
    return words if words[-1:] == ["<eos>"] else [*words, "<eos>"]


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
