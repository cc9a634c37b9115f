"""Text that every machine has: the docstrings of its own Python standard library.

Files are parsed, never imported, so their code does not run.
"""

import ast
import sysconfig
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from torch import Tensor
from vocabulary import PADDING, Vocabulary

# Some distributions leave these folders out: without them the text is nearly the same everywhere.
_LEFT_OUT = {"test", "tests", "idlelib", "turtledemo", "site-packages", "dist-packages"}
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def read_docstrings(max_files: int | None = None) -> list[str]:
    """Return every docstring of this Python's standard library once, sorted.

    With ``max_files`` only the first files are read.
    """
    root = Path(sysconfig.get_path("stdlib"))
    files = [path for path in sorted(root.rglob("*.py")) if not _LEFT_OUT & set(path.relative_to(root).parts)]
    return sorted({text for path in files[:max_files] for text in _docstrings(path)})


def _docstrings(path: Path) -> Iterator[str]:
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # templates, and samples of broken code
        return
    for node in ast.walk(tree):
        if isinstance(node, _DOCUMENTED) and (text := ast.get_docstring(node)):
            yield text


def split(texts: list[str]) -> tuple[list[str], list[str]]:
    """Split into training and validation: every twentieth docstring is for validation."""
    return [text for at, text in enumerate(texts) if at % 20], texts[::20]


def windows(texts: Iterable[str], vocabulary: Vocabulary, length: int) -> Tensor:
    """Concatenate the texts and cut them into rows of equal length.

    Returns:
        Ids, int64 [rows, length + 1]: the last word of a row begins the next, so every word is predicted once.
    """
    stream = [at for text in texts for at in vocabulary.encode(text)]
    stream += [PADDING] * (-(len(stream) - 1) % length)
    return torch.tensor(stream).unfold(0, length + 1, length)
