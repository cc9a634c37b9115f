"""Rules of plain technical English that a program can check; `docs/development/english.md` states all of them."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from .texts import ROOT, Sentence

MOST_WORDS = 30

# The subject of a sentence is a noun, and not a clause.
_OPENINGS = "What Who Whose Whom Those Whoever Whatever".split()
_OPENINGS_OF_FIRST_LINES = (
    "And As But By For From How If In Is It Its Of On Or That These This To Under When Where Whether Which Why With "
    "Without"
).split()
_PHRASES = ("Of all", "Of those", "Of which", "That which", "The one that", "The ones that")

# The first part of a test's name is the unit under test.
_NOT_UNITS = frozenset(
    "a all an and another any as at both by each either every few for from how if in is it its many more most much "
    "neither no none nor not nothing of on one only or other others same several some such that the their them these "
    "they this those three to too two under what when where which who whose with without".split()
)

# Terms of the glossary that contain a word which is not used alone.
_TERMS = ("attention heads?",)


def broken_rules(sentence: Sentence, synonyms: Mapping[str, str]) -> Iterator[str]:
    """Yield each rule that a sentence breaks.

    Args:
        sentence: one sentence.
        synonyms: words that are not used, each with the word of the glossary in its place.
    """
    text = sentence.text
    words = text.split()
    first = re.sub(r"\W", "", words[0])
    if len(words) > MOST_WORDS:
        yield f"has {len(words)} words, expected at most {MOST_WORDS}"
    if not text.endswith("?") and (first in _OPENINGS or text.startswith(_PHRASES)):
        yield f"begins with {' '.join(words[:2])!r}, expected a noun or a verb"
    elif sentence.is_first and first in _OPENINGS_OF_FIRST_LINES:
        yield f"a first line begins with {first!r}, expected a noun or a verb"
    alone = re.sub("|".join(_TERMS), "", text, flags=re.IGNORECASE)
    for synonym, word in synonyms.items():
        if re.search(rf"(?<![-\w]){synonym}s?(?![-\w])", alone, re.IGNORECASE):
            yield f"says {synonym!r}, expected {word!r}"


def broken_rules_of_name(name: str) -> Iterator[str]:
    """Yield each rule that the name of a test breaks; its form is ``test_<unit>_<condition>_<expectation>``."""
    _, *parts = name.split("_")
    if len(parts) < 3:
        yield "has fewer than three words, expected test_<unit>_<condition>_<expectation>"
    if parts[0] in _NOT_UNITS:
        yield f"begins with {parts[0]!r}, expected the unit under test"


def read_synonyms(glossary: Path = ROOT / "docs" / "reference" / "glossary.md") -> dict[str, str]:
    """Return the words in bold on the lines "Not used" of the glossary, each with the term in its place."""
    synonyms: dict[str, str] = {}
    term = ""
    for line in glossary.read_text(encoding="utf-8").splitlines():
        if line.startswith("  - Not used:"):
            synonyms.update(dict.fromkeys(re.findall(r"\*\*(.+?)\*\*", line), term))
        elif line and not line.startswith((" ", "`", "#")):
            term = line
    return synonyms
