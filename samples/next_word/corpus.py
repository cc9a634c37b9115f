"""Text that every machine has: the docstrings of its own Python standard library.

Files are parsed, never imported, so nothing of them runs.
"""

import ast
import re
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor

PADDING, UNKNOWN = 0, 1
TOKEN = r"\w+(?:[.'-]\w+)*|[^\w\s]"

# Some distributions leave these out: without them the text is the same everywhere.
_LEFT_OUT = {"test", "tests", "idlelib", "turtledemo", "site-packages", "dist-packages"}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def read_docstrings(folder: Path | None = None, max_files: int | None = None) -> list[str]:
    """Every docstring below a folder once, sorted: by default that of this Python's standard library."""
    root = folder or Path(sysconfig.get_path("stdlib"))
    files = [path for path in sorted(root.rglob("*.py")) if not _LEFT_OUT & set(path.relative_to(root).parts)]
    return sorted({text for path in files[:max_files] for text in _docstrings(path)})


def _docstrings(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # templates and samples of broken code
        return
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield text


class Vocabulary:
    """Words by id: padding, unknown, then the words by falling frequency.

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
        """Every word of some texts."""
        counts = Counter(word for text in texts for word in re.findall(TOKEN, text))
        by_frequency = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(["<pad>", "<unk>", *by_frequency])

    def __len__(self) -> int:
        return len(self.words)

    def encode(self, text: str) -> list[int]:
        """Ids of the words of a text."""
        return [self._ids.get(word, UNKNOWN) for word in re.findall(self.token, text)]


def split(texts: list[str]) -> tuple[list[str], list[str]]:
    """Training and validation: every twentieth docstring is for validation."""
    return [text for at, text in enumerate(texts) if at % 20], texts[::20]


def windows(texts: Iterable[str], vocabulary: Vocabulary, length: int) -> Tensor:
    """Texts cut into rows of ``length`` + 1 ids, int64 [rows, length + 1]; the last word of a row starts the next."""
    rows = []
    for text in texts:
        ids = vocabulary.encode(text)
        for begin in range(0, len(ids) - 1, length):
            row = ids[begin : begin + length + 1]
            rows.append(row + [PADDING] * (length + 1 - len(row)))
    return torch.tensor(rows)
