"""Suggests next words with the model of a bundle, as an app does: no torch, no class of the model, no training code.

Usage: python samples/python/complete.py build/next_word/bundle "Return a list of"
"""

import json
import re
from pathlib import Path

import click
import numpy as np

import edge_embed

Suggestions = list[tuple[str, float]]
_PADDING, _UNKNOWN = 0, 1


class Completer:
    """Model of a bundle.

    Args:
        folder: the bundle. Its hashes, its versions and its golden outputs are compared.

    Raises:
        EdgeEmbedError: the bundle was changed, or this machine cannot run it.
    """

    def __init__(self, folder: Path) -> None:
        self._bundle = edge_embed.open_bundle(folder)
        self._token = re.compile(self._bundle.manifest.metadata["tokenizer"])  # finds the words of a text
        self._words: list[str] = json.loads((folder / "vocabulary.json").read_text(encoding="utf-8"))
        self._ids = {word: at for at, word in enumerate(self._words)}
        self._is_sign = np.array([not word[0].isalnum() for word in self._words])  # including <pad> and <unk>

    def encode(self, text: str) -> list[int]:
        """Return the ids of the words of a text, after the padding that begins every text."""
        return [_PADDING, *(self._ids.get(word, _UNKNOWN) for word in self._token.findall(text))]

    def suggest(self, texts: list[str], count: int = 3) -> list[Suggestions]:
        """Return the likeliest next words of every text, with their probabilities; all texts in one run."""
        rows = [self.encode(text) for text in texts]
        ids = np.full((len(rows), max(map(len, rows))), _PADDING)  # [texts, longest]
        for at, row in enumerate(rows):
            ids[at, : len(row)] = row
        logits = self._bundle.run({"ids": ids})["output"]  # [texts, longest, answers]
        return [self._best(logits[at, len(row) - 1], count) for at, row in enumerate(rows)]

    def _best(self, logits: np.ndarray[tuple[int], np.dtype[np.float32]], count: int) -> Suggestions:
        chances = np.exp(logits - logits.max())
        chances /= chances.sum()
        chances[self._is_sign[: len(chances)]] = 0  # never suggested
        best = np.argsort(-chances)[:count]
        return [(self._words[word], float(chances[word])) for word in best]


@click.command()
@click.argument("bundle", type=click.Path(path_type=Path))
@click.argument("texts", nargs=-1, required=True)
def main(bundle: Path, texts: tuple[str, ...]) -> None:
    """Suggest the next word of each of the TEXTS with the model of a BUNDLE."""
    try:
        suggestions = Completer(bundle).suggest(list(texts))
    except edge_embed.EdgeEmbedError as error:
        raise click.ClickException(str(error)) from error
    for text, words in zip(texts, suggestions, strict=True):
        print(f"  {text:28} -> " + ", ".join(f"{word} ({chance:.0%})" for word, chance in words))


if __name__ == "__main__":
    main()
