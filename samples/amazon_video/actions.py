"""Actions of users, in time order, from the sample's file or from ratings and reviews in their public layouts.

Video.txt                    user and item, in time order
ratings.dat                  MovieLens 1M and 10M: user::item::rating::seconds
ratings.csv                  MovieLens 20M, 25M and 32M: the same with commas, and a header
*.json, *.jsonl, also .gz    Amazon reviews, a JSON object in each line, with the keys of 2014 and 2018 or of 2023
"""

import gzip
import json
import zlib
from collections.abc import Iterator
from itertools import chain
from math import isnan, nan
from pathlib import Path
from typing import IO, Any, NamedTuple

import click

PUBLIC = ("ratings.dat", "ratings.csv", "*.json", "*.jsonl", "*.json.gz", "*.jsonl.gz")
_HEADER = "userId,movieId,rating,timestamp"
_LARGEST = 1e4  # rating; errors of larger ones have squares that float32 cannot add
_KEYS = (("reviewerID", "asin", "unixReviewTime", "overall"), ("user_id", "parent_asin", "timestamp", "rating"))


class Rated(NamedTuple):
    """One action; its rating is NaN where the file has none."""

    user: str
    item: str
    time: float
    rating: float


def actions(folder: Path) -> list[tuple[str, str]]:
    """Return users and items; those of a user follow each other, in time order.

    Raises:
        click.ClickException: a line has another form.
        FileNotFoundError: the folder holds none of the files.
    """
    found = _files(folder)
    if not found:
        lines = (folder / "Video.txt").read_text(encoding="ascii").splitlines()
        return [(user, item) for user, item in map(str.split, lines)]
    timed = sorted(chain.from_iterable(map(_rated, found)), key=lambda action: (action.user, action.time))
    return [(action.user, action.item) for action in timed]


def ratings(folder: Path) -> list[Rated]:
    """Return the ratings of a public layout, in the order of its files; none if the folder holds ``Video.txt``.

    Raises:
        click.ClickException: a line has another form, or no rating.
    """
    found = list(chain.from_iterable(map(_rated, _files(folder))))
    if any(isnan(action.rating) for action in found):
        raise click.ClickException(
            f"{folder}: got reviews without a rating, expected the key overall or rating in each"
        )
    return found


def _files(folder: Path) -> list[Path]:
    """Return the files of one public layout; empty without any."""
    return next(filter(None, (sorted(folder.glob(pattern)) for pattern in PUBLIC)), [])


def _rated(path: Path) -> Iterator[Rated]:
    parse = {".dat": _double_colons, ".csv": _commas}.get(path.suffix, _review)
    number, line = 0, ""
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, 1):
                if parse is _commas and number == 1:
                    if line.strip() != _HEADER:
                        raise ValueError("another header")
                elif line.strip():
                    yield parse(line)
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path}: cannot be read after line {number}: {error}") from error
    except (ValueError, KeyError, TypeError) as error:
        expected = f"expected {_EXPECTED[parse]}"
        raise click.ClickException(f"{path}, line {number}: got {line.strip()!r:.60}, {expected}") from error


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8-sig")
    return path.open(encoding="utf-8-sig")


def _double_colons(line: str) -> Rated:
    user, item, rating, time = line.split("::")
    return Rated(user, item, float(time), _number(rating))


def _commas(line: str) -> Rated:
    user, item, rating, time = line.split(",")
    return Rated(user, item, float(time), _number(rating))


def _review(line: str) -> Rated:
    review = json.loads(line)
    user, item, time, rating = next((keys for keys in _KEYS if keys[0] in review), _KEYS[0])
    if not (review[user] and review[item]):
        raise ValueError("no user or no item")
    value = _number(review[rating]) if rating in review else nan
    return Rated(str(review[user]), str(review[item]), float(review[time]), value)


def _number(rating: Any) -> float:
    """Return a rating."""
    number = float(rating)
    if not abs(number) <= _LARGEST:
        raise ValueError("no rating")
    return number


_EXPECTED = {
    _double_colons: "user::item::rating::time",
    _commas: f"{_HEADER}, and such numbers below it",
    _review: f"a JSON object with {' or '.join(', '.join(keys[:3]) for keys in _KEYS)}",
}
