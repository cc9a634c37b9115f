"""Quantities of a budget as people write them: ``460 KiB``, ``1.5 MB``, ``1 %``; each reader refuses anything else."""

import math
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from edge_embed.errors import BadInputError

_UNITS = {"B": 1, "kB": 10**3, "MB": 10**6, "GB": 10**9, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30}
_NUMBER = r"(\d{1,15}(?:\.\d{1,9})?)"
_SIZE = re.compile(rf"{_NUMBER}\s*({'|'.join(_UNITS)})")
_PERCENT = re.compile(rf"{_NUMBER}\s*%")


@dataclass(frozen=True)
class Growth:
    """Allowed growth: bytes, or a fraction of the earlier size. Exact."""

    bytes: int = 0
    fraction: Fraction = Fraction(0)

    def limit(self, before: int) -> int:
        """Return the largest size that passes."""
        return before + self.bytes + math.floor(before * self.fraction)

    def __str__(self) -> str:
        return f"{float(100 * self.fraction):g} %" if self.fraction else f"{self.bytes:,} B"


def read_bytes(value: Any) -> int:
    """Read bytes from an integer or from text with a unit."""
    if type(value) is int and value >= 0:
        return value
    found = _SIZE.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise BadInputError(
            f"got {value!r:.80}, expected bytes as an integer of at least 0, or text such as '460 KiB' (units: "
            f"{', '.join(_UNITS)})"
        )
    return math.floor(Fraction(found[1]) * _UNITS[found[2]])


def read_fraction(value: Any) -> Fraction:
    """Read a fraction from text with a percent sign."""
    found = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    if found is None:
        raise BadInputError(f"got {value!r:.80}, expected a percentage as text, such as '10 %'")
    return Fraction(found[1]) / 100


def read_growth(value: Any) -> Growth:
    """Read bytes or a percentage."""
    if isinstance(value, str) and "%" in value:
        return Growth(fraction=read_fraction(value))
    try:
        return Growth(bytes=read_bytes(value))
    except BadInputError as error:
        raise BadInputError(f"{error}, or a percentage such as '1 %'") from error


def read_bound(value: Any) -> float:
    """Read a finite number of at least 0."""
    if type(value) not in (int, float) or not 0 <= value < math.inf:
        raise BadInputError(f"got {value!r:.80}, expected a finite number of at least 0")
    return float(value)


def read_seconds(value: Any) -> float:
    """Read a finite number above 0."""
    if type(value) not in (int, float) or not 0 < value < math.inf:
        raise BadInputError(f"got {value!r:.80}, expected seconds, a finite number above 0")
    return float(value)


def read_cosine(value: Any) -> float:
    """Read a number from 0 to 1: no cosine reaches a larger one."""
    return _up_to_one(value, "a cosine")


def read_share(value: Any) -> float:
    """Read a number from 0 to 1."""
    return _up_to_one(value, "a share")


def _up_to_one(value: Any, what: str) -> float:
    if type(value) not in (int, float) or not 0 <= value <= 1:
        raise BadInputError(f"got {value!r:.80}, expected {what}, a number from 0 to 1")
    return float(value)


def read_iterations(value: Any) -> int:
    """Read a count of at least 2."""
    if type(value) is not int or value < 2:
        raise BadInputError(f"got {value!r:.80}, expected an integer of at least 2")
    return value


def read_switch(value: Any) -> bool:
    """Read true or false."""
    if type(value) is not bool:
        raise BadInputError(f"got {value!r:.80}, expected true or false")
    return value


def read_text(value: Any) -> str:
    """Read text that is not empty."""
    if not isinstance(value, str) or not value:
        raise BadInputError(f"got {value!r:.80}, expected text")
    return value
