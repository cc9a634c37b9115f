"""Every finding of the rules in the texts of the project."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from edge_embed.cli import main

from .rules import broken_rules, broken_rules_of_name, read_synonyms
from .texts import Sentence, names_of_tests, of_command, of_docstrings, of_document, of_messages, tracked


def findings(paths: Sequence[Path] = ()) -> Iterator[str]:
    """Yield place, rule and text of each finding, below some paths or in all texts and help."""
    synonyms = read_synonyms()
    for sentence in _sentences(paths):
        for broken in broken_rules(sentence, synonyms):
            yield f"{sentence.place}: {broken}: {sentence.text}"
    for path in _below(paths, tracked("tests/*.py")):
        for place, name in names_of_tests(path):
            for broken in broken_rules_of_name(name):
                yield f"{place}: {broken}: {name}"


def _sentences(paths: Sequence[Path]) -> Iterator[Sentence]:
    for path in _below(paths, tracked("*.md")):
        yield from of_document(path)
    for path in _below(paths, tracked("*.py")):
        yield from of_docstrings(path)
    if not paths:
        yield from of_command("edge-embed", main)
        yield from of_messages()


def _below(paths: Sequence[Path], files: list[Path]) -> list[Path]:
    if not paths:
        return files
    return [file for file in files if any(file == path or path in file.parents for path in paths)]
