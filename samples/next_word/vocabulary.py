"""Words and their ids."""

import re
from collections import Counter
from collections.abc import Iterable

PADDING, UNKNOWN = 0, 1
TOKEN = r"\w+(?:[.'-]\w+)*|[^\w\s]"  # a word, or a single sign


class Vocabulary:
    """Words by id: padding, unknown, then the words by descending frequency.

    Args:
        words: the word of every id.
        token: regular expression that finds the words of a text.
    """

    def __init__(self, words: Iterable[str], token: str = TOKEN) -> None:
        self.words = list(words)
        self.token = token
        self._ids = {word: at for at, word in enumerate(self.words)}

    @classmethod
    def of(cls, texts: Iterable[str]) -> "Vocabulary":
        """Return the vocabulary of all words of some texts."""
        counts = Counter(word for text in texts for word in re.findall(TOKEN, text))
        by_frequency = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(["<pad>", "<unk>", *by_frequency])

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, text: str) -> list[int]:
        """Return the ids of the words of a text, after the padding that begins every text."""
        return [PADDING, *(self._ids.get(word, UNKNOWN) for word in re.findall(self.token, text))]
