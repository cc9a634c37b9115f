"""Rows of character n-grams by their hash, from which fastText computes words.

Source: `Dictionary::computeSubwords` and `Dictionary::hash` of fastText 0.9.2. A character is a byte and the UTF-8
continuation bytes after it. The hash is 32-bit FNV-1a over signed bytes.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_OFFSET, _PRIME = np.uint32(2166136261), np.uint32(16777619)
_MOST_BYTES = 4  # maximum of a character

Words = list[bytes]
Integers = NDArray[np.int64]


@dataclass(frozen=True)
class NgramOptions:
    """Lengths of n-grams in characters, and the number of rows that their hash selects from."""

    shortest: int
    longest: int
    num_buckets: int


def word_ngrams(words: Words, options: NgramOptions) -> tuple[Integers, Integers]:
    """Return the buckets of the n-grams of words, in the order in which fastText adds them.

    Args:
        words: words in UTF-8, without the signs around them.
        options: options of the model.

    Returns:
        Buckets [m] of all words, one word after the other, and the number of buckets of each word [w].
    """
    text = np.frombuffer(b"".join(b"<" + word + b">" for word in words), np.uint8)
    lengths = np.fromiter((len(word) + 2 for word in words), np.int64, len(words))
    begins = np.flatnonzero((text & 0xC0) != 0x80)  # start of each character
    owner = np.repeat(np.arange(len(words)), lengths)[begins]
    last = np.cumsum(np.bincount(owner, minlength=len(words)))[owner] - 1  # last character of the same word
    first = np.r_[True, owner[1:] != owner[:-1]]
    position = np.arange(len(begins))
    ends = np.r_[begins[1:], len(text)]
    hashes = np.full(len(begins), _OFFSET)
    buckets, kept = [], []
    for size in range(1, options.longest + 1):
        reached = position + size - 1
        inside = reached <= last
        if not inside.any():
            break
        at = np.minimum(reached, len(begins) - 1)
        hashes = _hashed(hashes, text, begins[at], ends[at])
        if size >= options.shortest:
            # The signs around a word are not n-grams of one character.
            kept.append(inside & ~(first | (position == last)) if size == 1 else inside)
            buckets.append(hashes.astype(np.int64) % options.num_buckets)
    if not kept:
        return np.empty(0, np.int64), np.zeros(len(words), np.int64)
    chosen = np.stack(kept, axis=1)  # [characters, sizes]
    counts = np.bincount(owner, chosen.sum(axis=1), minlength=len(words)).astype(np.int64)
    return np.stack(buckets, axis=1)[chosen], counts


def _hashed(
    hashes: NDArray[np.uint32], text: NDArray[np.uint8], begins: Integers, ends: Integers
) -> NDArray[np.uint32]:
    """Return the hashes after one more character each."""
    for offset in range(_MOST_BYTES):
        at = begins + offset
        byte = text[np.minimum(at, len(text) - 1)].astype(np.int8).astype(np.int32).view(np.uint32)
        hashes = np.where(at < ends, (hashes ^ byte) * _PRIME, hashes)
    return hashes
