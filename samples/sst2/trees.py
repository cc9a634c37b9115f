"""SST-5: sentences and phrases of film reviews in five classes, in their public layout.

The layout is that of Socher and others, "Recursive Deep Models for Semantic Compositionality Over a Sentiment Treebank"
(2013): ``train.txt``, ``dev.txt`` and ``test.txt`` with a tree in each line. A node is ``(class word)`` or
``(class node node)``, with classes from 0, very negative, to 4, very positive.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import click
from datasets import read_lines

PUBLIC = ("train.txt", "dev.txt", "test.txt")
_CLASSES = frozenset("01234")
_SIGNS = {"-LRB-": "(", "-RRB-": ")"}

Phrase = tuple[int, tuple[str, ...]]  # class, words in lower case


def is_public(folder: Path) -> bool:
    """Return whether a folder holds the trees."""
    return (folder / PUBLIC[0]).is_file()


def sentences(path: Path) -> list[Phrase]:
    """Return the whole sentences of a file.

    Raises:
        click.ClickException: a line is no such tree, or there is none.
    """
    found = [phrases[-1] for phrases in _trees(path)]
    if not found:
        raise click.ClickException(f"{path}: got no sentences, expected some")
    return found


def phrases(path: Path) -> list[Phrase]:
    """Return all phrases of a file, sentences included, each with its class once; errors as of `sentences`."""
    found = dict.fromkeys(phrase for phrases in _trees(path) for phrase in phrases)
    if not found:
        raise click.ClickException(f"{path}: got no phrases, expected some")
    return list(found)


def _trees(path: Path) -> Iterator[list[Phrase]]:
    """Yield the phrases of each line, the sentence last."""
    for number, line in enumerate(read_lines(path), 1):
        if line.strip():
            found = _phrases(line)
            if found is None:
                expected = "expected a tree such as (3 (2 good) (2 film))"
                raise click.ClickException(f"{path}, line {number}: got {line!r:.60}, {expected}")
            yield found


def _phrases(line: str) -> list[Phrase] | None:
    """Return the phrases of a tree, the whole one last, or None if it is none."""
    open_ones: list[_Node] = []
    found = list[Phrase]()
    for token in re.findall(r"[()]|[^\s()]+", line):
        if token == "(" and (open_ones or not found):
            open_ones.append(_Node())
        elif not open_ones or token == "(":
            return None
        elif token != ")":
            open_ones[-1].tokens.append(token)
        else:
            node = open_ones.pop()
            if not node.is_whole:
                return None
            found.append((int(node.tokens[0]), node.words))
            if open_ones:
                open_ones[-1].children.append(node.words)
    return found if found and not open_ones else None


@dataclass
class _Node:
    """A node of a tree: its class and, in a leaf, a word; and the words of both nodes below it otherwise."""

    tokens: list[str] = field(default_factory=list)
    children: list[tuple[str, ...]] = field(default_factory=list)

    @property
    def is_whole(self) -> bool:
        """Return whether it has a class, and either a word or two nodes."""
        sizes = len(self.tokens), len(self.children)
        return bool(self.tokens) and self.tokens[0] in _CLASSES and sizes in ((2, 0), (1, 2))

    @property
    def words(self) -> tuple[str, ...]:
        """Return all its words, in lower case."""
        own = (_SIGNS.get(token, token.lower()) for token in self.tokens[1:])
        return (*own, *(word for words in self.children for word in words))
