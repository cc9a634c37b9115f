"""Sentences and their translations in the public layouts of IWSLT and WMT: the words of both languages of each pair.

    train.en, train.de, valid.en, ...             words between spaces; IWSLT'15 and WMT'14 of Stanford, fairseq
    train.tags.en-de.en, IWSLT*.dev2010.*.xml     texts of IWSLT with marks, which are split into words here

Parts for validation and test are the first of the names below for which there are files. One language is English; the
source is English, unless the training files are named for the other direction, as in ``train.tags.de-en.de``.
"""

import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path

import click
from datasets import read_lines

PUBLIC = ("train.en", "train.tags.*")
_PARTS = {
    "training": ("train",),
    "validation": ("valid", "val", "dev", "tst2012", "newstest2013"),
    "test": ("test", "tst2013", "newstest2014"),
}
_MARKED_PARTS = {"validation": ("dev2010", "dev2012", "tst2012"), "test": ("tst2014", "tst2013", "tst2012", "tst2010")}

Pair = tuple[list[str], list[str]]  # words of the source and of its translation


def is_public(folder: Path) -> bool:
    """Return whether a folder holds pairs in one of the layouts."""
    return any(next(folder.glob(pattern), None) for pattern in PUBLIC)


def pairs_of(folder: Path) -> dict[str, list[Pair]]:
    """Return the pairs for training, validation and test.

    Raises:
        click.ClickException: a part is missing, or its files have different numbers of sentences.
    """
    marked = next(iter(sorted(folder.glob("train.tags.*"))), None)
    if marked is None:
        return {part: _paired(*_plain_files(folder, part, names)) for part, names in _PARTS.items()}
    direction = marked.name.split(".")[2]
    source, _, target = direction.partition("-")
    if not target:
        raise click.ClickException(f"{marked}: got this name, expected train.tags.de-en.de or other languages")
    found = {"training": _paired(*(folder / f"train.tags.{direction}.{each}" for each in (source, target)))}
    for part, names in _MARKED_PARTS.items():
        found[part] = _paired(*_marked_files(folder, part, names, direction))
    return found


def _plain_files(folder: Path, part: str, names: tuple[str, ...]) -> tuple[Path, Path]:
    """Return the English file of a part, and that of the other language."""
    for name in names:
        others = [path for path in sorted(folder.glob(f"{name}.*")) if path.suffix != ".en" and path.suffixes[1:] == []]
        if len(others) > 1:
            got = " and ".join(path.name for path in others)
            raise click.ClickException(f"{folder}: got {got}, expected one language beside English")
        if others and (folder / f"{name}.en").is_file():
            return folder / f"{name}.en", others[0]
    raise _missing(folder, part, [f"{name}.en with another language" for name in names])


def _marked_files(folder: Path, part: str, names: tuple[str, ...], direction: str) -> tuple[Path, Path]:
    for name in names:
        patterns = [f"IWSLT*.{name}.{direction}.{language}.xml" for language in direction.split("-")]
        found = [next(iter(sorted(folder.glob(pattern))), None) for pattern in patterns]
        if found[0] and found[1]:
            return found[0], found[1]
    raise _missing(folder, part, [f"IWSLT*.{name}.{direction}.*.xml" for name in names])


def _missing(folder: Path, part: str, expected: list[str]) -> click.ClickException:
    return click.ClickException(f"{folder}: got no files for {part}, expected {' or '.join(expected)}")


def _paired(*paths: Path) -> list[Pair]:
    """Return the pairs of both files of a part, without those that lack a sentence."""
    source, target = (list(_sentences(path)) for path in paths)
    if len(source) != len(target):
        named = " and ".join(f"{len(each):,} in {path}" for each, path in zip((source, target), paths, strict=True))
        raise click.ClickException(f"got {named}, expected as many sentences in both")
    return [pair for pair in zip(source, target, strict=True) if all(pair)]


def _sentences(path: Path) -> Iterator[list[str]]:
    """Yield the words of each sentence, lower case only where they are split here."""
    lines = read_lines(path)
    if path.suffix == ".xml":
        yield from (_split(text) for line in lines for text in re.findall(r"<seg[^>]*>(.*?)</seg>", line))
    elif path.name.startswith("train.tags."):
        yield from (_split(line) for line in lines if not line.lstrip().startswith("<"))
    else:
        yield from map(str.split, lines)


def _split(text: str) -> list[str]:
    return re.findall(r"\w+|[^\w\s]", unescape(text).lower())
