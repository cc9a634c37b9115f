"""What is a number in a text file."""

import re

_NUMBER = re.compile(rb"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|nan|inf(inity)?)", re.IGNORECASE)
_FINITE = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)


def is_number(field: bytes) -> bool:
    """Whether a field is a number, finite or not."""
    return _NUMBER.fullmatch(field) is not None


def is_finite_number(field: bytes) -> bool:
    """Whether a field is a number that is not spelled as NaN or an infinity."""
    return _FINITE.fullmatch(field) is not None
