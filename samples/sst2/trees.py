"""SST-5: sentences and phrases of film reviews in five classes, in their public layout.

The layout is that of Socher and others, "Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank"
(2013): ``train.txt``, ``dev.txt`` and ``test.txt`` with a tree in each line. A node is ``(class word)`` or
``(class node node)``, with classes from 0, very negative, to 4, very positive.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import click

PUBLIC = ("train.txt", "dev.txt", "test.txt")
_CLASSES = frozenset("01234")
_SIGNS = {"-LRB-": "(", "-RRB-": ")"}

Phrase = tuple[int, tuple[str, ...]]  # class, words in lower case


def is_public(folder: Path) -> bool:
    """Return whether a folder holds the trees."""
    return all((folder / file).is_file() for file in PUBLIC)


def sentences(path: Path) -> list[Phrase]:
    """Return the whole sentences of a file.

    Raises:
        click.ClickException: a line is no such tree.
    """
    return [phrases[-1] for phrases in _trees(path)]


def phrases(path: Path) -> list[Phrase]:
    """Return all phrases of a file, sentences included, each with its class once; errors as of `sentences`."""
    return list(dict.fromkeys(phrase for phrases in _trees(path) for phrase in phrases))


def _trees(path: Path) -> Iterator[list[Phrase]]:
    """Yield the phrases of each line, the sentence last."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            found = _phrases(line)
            if found is None:
                expected = "expected a tree such as (3 (2 good) (2 film))"
                raise click.ClickException(f"{path}, line {number}: got {line!r:.60}, {expected}")
            yield found


def _phrases(line: str) -> list[Phrase] | None:
    """Return the phrases of a tree, the whole one last, or None if it is none."""
    open_ones: list[list[str]] = []  # class and words of each node that is not closed
    found = list[Phrase]()
    for token in re.findall(r"[()]|[^\s()]+", line):
        if token == "(":
            open_ones.append([])
        elif not open_ones:
            return None
        elif token != ")":
            open_ones[-1].append(_SIGNS.get(token, token.lower()))
        else:
            label, *words = open_ones.pop() or [""]
            if label not in _CLASSES or not words:
                return None
            found.append((int(label), tuple(words)))
            if open_ones:
                open_ones[-1] += words
    return found if found and not open_ones else None
