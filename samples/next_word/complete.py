"""Suggests next words with ONNX Runtime from the exported file alone: no torch, no class of the model.

Usage: python samples/next_word/complete.py build/next_word/model.onnx "Return a list of"
"""

import json
from pathlib import Path

import click
import numpy as np
from vocabulary import PADDING, Vocabulary

import edge_embed

Suggestions = list[tuple[str, float]]


class Completer:
    """Session over an exported model.

    Args:
        path: the ``.onnx`` file, which contains vocabulary and tokenizer.
    """

    def __init__(self, path: Path) -> None:
        self._session = edge_embed.create_session(path)
        properties = self._session.get_modelmeta().custom_metadata_map
        words = json.loads(properties["edge_embed.vocabulary"])
        metadata = json.loads(properties["edge_embed.metadata"])
        self._vocabulary = Vocabulary(words, metadata["tokenizer"])
        self._is_sign = np.array([not word[0].isalnum() for word in words])  # including <pad> and <unk>

    def suggest(self, texts: list[str], count: int = 3) -> list[Suggestions]:
        """Return the likeliest next words of every text, with their probabilities; all texts in one run."""
        rows = [self._vocabulary.encode(text) for text in texts]
        ids = np.full((len(rows), max(map(len, rows))), PADDING)  # [texts, longest]
        for at, row in enumerate(rows):
            ids[at, : len(row)] = row
        (logits,) = self._session.run(["output"], {"ids": ids})  # [texts, longest, answers]
        return [self._best(logits[at, len(row) - 1], count) for at, row in enumerate(rows)]

    def _best(self, logits: np.ndarray[tuple[int], np.dtype[np.float32]], count: int) -> Suggestions:
        chances = np.exp(logits - logits.max())
        chances /= chances.sum()
        chances[self._is_sign[: len(chances)]] = 0  # never suggested
        best = np.argsort(-chances)[:count]
        return [(self._vocabulary.words[word], float(chances[word])) for word in best]


def show(texts: list[str], suggestions: list[Suggestions]) -> None:
    """Print one line for each text."""
    for text, words in zip(texts, suggestions, strict=True):
        print(f"  {text:28} -> " + ", ".join(f"{word} ({chance:.0%})" for word, chance in words))


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("texts", nargs=-1, required=True)
def main(model: Path, texts: tuple[str, ...]) -> None:
    """Suggest the next word of each of the TEXTS with the exported MODEL."""
    show(list(texts), Completer(model).suggest(list(texts)))


if __name__ == "__main__":
    main()
