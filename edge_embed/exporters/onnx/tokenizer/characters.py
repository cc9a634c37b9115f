"""Results of normalizer and pre-tokenizer for every character, computed by the library itself, per code point.

So the exported nodes follow the library and its version of Unicode, not the tables of a runtime. This holds for
normalizers that treat a character alike in every context. Only these are accepted (see source.py).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.tokenizer.source import TokenizerSource

# Characters for private use. Those in the text are replaced by another (`stand_in`), so that they can mark positions
# in the text.
FIRST_MARK, LAST_MARK = 0x100000, 0x10FFFD
_BLOCK = 256


@dataclass(frozen=True)
class Characters:
    """The treatment of characters; those in none of these are unchanged parts of words.

    Attributes:
        replaced: characters with their replacement, which may be empty, or be in the next two.
        spaces: characters that separate words.
        signs: characters that are separate words, each one or a run of them.
    """

    replaced: dict[str, str]
    spaces: list[str]
    signs: list[str]

    def dropped(self) -> list[str]:
        """Return the many characters that are replaced by nothing."""
        return [character for character, image in self.replaced.items() if not image]

    def parted(self) -> list[str]:
        """Return the many characters that get spaces around them: Chinese characters."""
        return [character for character, image in self.replaced.items() if image == f" {character} "]

    def images(self) -> dict[str, str]:
        """Return the other replaced characters."""
        found = self.replaced.items()
        return {character: image for character, image in found if image not in ("", f" {character} ")}


def stand_in(vocabulary: Iterable[str]) -> str:
    """Return a character for private use that no token has: as unknown as the characters that it replaces.

    Raises:
        BadInputError: a token has one of those characters, or no other is free.
    """
    taken = set("".join(vocabulary))
    free = next((sign for sign in map(chr, range(0xE000, 0xF900)) if sign not in taken), None)
    if free is None or any(_is_mark(ord(sign)) for sign in taken):
        raise BadInputError(
            f"its vocabulary contains private-use characters from U+{FIRST_MARK:X} on, or all below it, which the "
            "exported nodes require: expected a vocabulary without them"
        )
    return free


def token_mark(number: int) -> str:
    """Return the mark of an added token in the text."""
    return chr(FIRST_MARK + number)


def read_characters(source: TokenizerSource) -> Characters:
    """Query the library for every character.

    A character is not replaced if neither it nor its replacement occurs in a known word: it is unknown in both cases.
    """
    kinds = _Kinds(source)
    spaces, signs = kinds.all()
    no_word = {*spaces, *signs}
    known = set("".join(source.content["model"]["vocab"]))
    replaced = {}
    for character, image in _normalized(source):
        together = {character, *image}
        unknown = image and character not in known and not set(image) <= known and not together & no_word
        if not unknown:
            replaced[character] = image
    return Characters(replaced, spaces, signs)


def pattern(characters: Iterable[str]) -> str:
    """Return a pattern of RE2 for any of some sorted characters; without characters, one that no text matches."""
    ranges: list[list[int]] = []
    for point in map(ord, list(characters) or [chr(LAST_MARK)]):
        if ranges and point == ranges[-1][1] + 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "[" + "".join(f"\\x{{{low:X}}}-\\x{{{high:X}}}" for low, high in ranges) + "]"


class _Kinds:
    """Classifies characters by the result of the pre-tokenizer for them between two letters."""

    def __init__(self, source: TokenizerSource) -> None:
        self._pre_tokenizer = source.library.pre_tokenizer
        self._in_runs = source.signs_in_runs

    def all(self) -> tuple[list[str], list[str]]:
        """Return the characters that separate words, and those that are no parts of words."""
        spaces: list[str] = []
        signs: list[str] = []
        for block in _blocks():
            parts = self._split(f"a{block}")
            if parts == [f"a{block}"]:
                continue
            if parts == ["a", *([block] if self._in_runs else block)]:
                signs += block
                continue
            for character in block:
                parts = self._split(f"a{character}a")
                if parts == ["a", "a"]:
                    spaces.append(character)
                elif parts != [f"a{character}a"]:
                    signs.append(character)
        return spaces, signs

    def _split(self, text: str) -> list[str]:
        found: list[Any] = self._pre_tokenizer.pre_tokenize_str(text)
        return [word for word, _ in found]


def _normalized(source: TokenizerSource) -> Iterator[tuple[str, str]]:
    """Yield the characters that the normalizer changes, with their replacements."""
    if source.library.normalizer is None:
        return
    normalize: Callable[[str], str] = source.library.normalizer.normalize_str
    for block in _blocks():
        if normalize(block) != block:
            for character in block:
                image = normalize(character)
                if image != character:
                    yield character, image


def _blocks() -> Iterator[str]:
    """Yield all characters, in order, without surrogates and marks."""
    for begin in range(0, 0x110000, _BLOCK):
        points = range(begin, begin + _BLOCK)
        block = "".join(chr(point) for point in points if not (0xD800 <= point < 0xE000 or _is_mark(point)))
        if block:
            yield block


def _is_mark(point: int) -> bool:
    return FIRST_MARK <= point <= LAST_MARK
