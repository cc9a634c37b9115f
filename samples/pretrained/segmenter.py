"""AttaCut, a model from other authors that finds the beginnings of Thai words; loaded from its state_dict.

Thai has no spaces between words. The inputs are each character and the syllable that contains it.
"""

import json
from pathlib import Path

import torch
from torch import Tensor, nn


class Convolution(nn.Module):
    """Convolution that keeps the length, followed by a batch norm."""

    def __init__(self, channels: int, filters: int, width: int, dilation: int) -> None:
        super().__init__()
        self.conv = nn.Conv1d(channels, filters, width, dilation=dilation, padding=dilation * (width // 2))
        self.bn = nn.BatchNorm1d(filters)

    def forward(self, values: Tensor) -> Tensor:
        """Return [batch, filters, characters] of [batch, channels, characters]."""
        normalized: Tensor = self.bn(self.conv(values))
        return normalized


class Segmenter(nn.Module):
    """Classifier of whether a word begins at each character. Attributes have the names of the checkpoint.

    Args:
        characters: rows of their table, 32 wide.
        syllables: rows of their table, 16 wide.
    """

    def __init__(self, characters: int, syllables: int) -> None:
        super().__init__()
        self.ch_embeddings: nn.Module = nn.Embedding(characters, 32, padding_idx=0)
        self.sy_embeddings: nn.Module = nn.Embedding(syllables, 16, padding_idx=0)
        self.conv1 = Convolution(48, 64, 3, dilation=1)
        self.conv2 = Convolution(48, 64, 5, dilation=3)
        self.conv3 = Convolution(48, 64, 9, dilation=2)
        self.linear1 = nn.Linear(64, 32)
        self.linear2 = nn.Linear(32, 1)

    def forward(self, characters: Tensor, syllables: Tensor) -> Tensor:
        """Return logits [batch, characters] of two tensors of integers [batch, characters]."""
        rows = torch.cat((self.ch_embeddings(characters), self.sy_embeddings(syllables)), dim=2)  # [b, t, 48]
        values = rows.transpose(1, 2)
        found = torch.stack((self.conv1(values), self.conv2(values), self.conv3(values))).amax(0)  # [b, 64, t]
        logits: Tensor = self.linear2(torch.relu(self.linear1(found.transpose(1, 2)))).squeeze(2)
        return logits


def load(folder: Path) -> Segmenter:
    """Return the model of ``attacut-sc.pth``, dense, in eval mode."""
    weights = torch.load(folder / "attacut-sc.pth", map_location="cpu", weights_only=True)
    model = Segmenter(len(weights["ch_embeddings.weight"]), len(weights["sy_embeddings.weight"]))
    model.load_state_dict(weights)
    return model.eval()


def random_syllables(folder: Path, rows: int, length: int) -> tuple[Tensor, Tensor]:
    """Return characters and syllables, int64 [rows, length] each: random syllables of the vocabulary, not real text."""
    numbers = [
        json.loads((folder / name).read_text(encoding="utf-8")) for name in ("characters.json", "syllables.json")
    ]
    of_character, of_syllable = numbers
    texts = [text for text in of_syllable if text and all(character in of_character for character in text)]
    characters: list[int] = []
    syllables: list[int] = []
    while len(characters) < rows * length:
        text = texts[int(torch.randint(len(texts), ()))]
        characters += [of_character[character] for character in text]
        syllables += [of_syllable[text]] * len(text)
    ids = torch.tensor([characters[: rows * length], syllables[: rows * length]]).view(2, rows, length)
    return ids[0], ids[1]
