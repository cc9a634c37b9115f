"""A language model of somebody else, trained on the Penn Treebank; its arrays put into torch layers."""

import csv
import math
import re
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

_WIDTH = 100
# The arrays hold the gates in the order forget, candidate, input, output; torch in the order input, forget, candidate,
# output. (Other orders give the same shapes and a perplexity that is up to 14 times as high.)
_GATES = (2, 0, 1, 3)
_LENGTH = 500
_BUSINESS = "3"


class LanguageModel(nn.Module):
    """Scores of the next word after every word: embedding, LSTM and an output layer with a table of its own.

    Args:
        table: takes ids [*] and gives rows [*, 100].
        output: takes states [*, 100] and gives logits [*, 10,000].
    """

    def __init__(self, table: nn.Module, output: nn.Module) -> None:
        super().__init__()
        self.table = table
        self.lstm = nn.LSTM(_WIDTH, _WIDTH, batch_first=True)
        self.output = output

    def forward(self, ids: Tensor) -> Tensor:
        """Integers [batch, words] -> logits [batch, words, 10,000]."""
        states, _ = self.lstm(self.table(ids))  # [batch, words, 100]
        logits: Tensor = self.output(states)
        return logits


def load(path: Path) -> LanguageModel:
    """The model of ``ptb_rnnlm_100.npz``, dense, in eval mode."""
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
    """Gates in torch's order: [*, 400] -> [*, 400]."""
    blocks = array.split(_WIDTH, dim=-1)
    return torch.cat([blocks[gate] for gate in _GATES], dim=-1)


def business_news(path: Path, words: list[str], limit: int) -> Tensor:
    """The first words of the business texts of AG News, ids int64 [limit], written as the Penn Treebank writes them.

    It is the text nearest to the model's own, the Wall Street Journal, that is at hand: lower case, N for numbers, no
    signs, <eos> between sentences.
    """
    number = {word: at for at, word in enumerate(words)}
    ids: list[int] = []
    with path.open(newline="", encoding="utf-8") as file:
        for label, _, text in csv.reader(file):
            if label == _BUSINESS:
                ids += [number.get(word, number["<unk>"]) for word in treebank_words(text)]
    return torch.tensor(ids[:limit])


def treebank_words(text: str) -> list[str]:
    """Words of a text, and <eos> after each sentence."""
    plain = re.sub(r" #39;", "'", text.lower())
    plain = re.sub(r" quot;| #\d+;|\\", " ", plain)  # what is left of HTML and of line ends
    words = re.findall(r"[a-z]+(?:-[a-z]+)*|'s|\$|\d[\d.,]*|\.", plain)
    words = ["N" if word[0].isdigit() else "<eos>" if word == "." else word for word in words]
    return words if words[-1:] == ["<eos>"] else [*words, "<eos>"]


@torch.no_grad()
def perplexity(model: nn.Module, words: Tensor) -> float:
    """Of words [n], in rows of 500 that know nothing of one another."""
    rows = words.unfold(0, _LENGTH + 1, _LENGTH)
    losses = [functional.cross_entropy(model(row[None, :-1])[0], row[1:]) for row in rows]
    return math.exp(float(torch.stack(losses).mean()))
