"""Actions of users, in time order, from the sample's file or from ratings and reviews in their public layouts.

Video.txt                    user and item, in time order
ratings.dat                  MovieLens 1M and 10M: user::item::rating::seconds
ratings.csv                  MovieLens 20M, 25M and 32M: the same with commas, and a header
*.json, *.jsonl, also .gz    Amazon reviews, a JSON object in each line, with the keys of 2014 and 2018 or of 2023
"""

import gzip
import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import IO

import click

PUBLIC = ("ratings.dat", "ratings.csv", "*.json", "*.jsonl", "*.json.gz", "*.jsonl.gz")
_KEYS = (("reviewerID", "asin", "unixReviewTime"), ("user_id", "parent_asin", "timestamp"))

Timed = tuple[str, str, float]  # user, item, time


def actions(folder: Path) -> list[tuple[str, str]]:
    """Return users and items; those of a user follow each other, in time order.

    Raises:
        click.ClickException: a line has another form.
        FileNotFoundError: the folder holds none of the files.
    """
    found = [path for pattern in PUBLIC for path in sorted(folder.glob(pattern))]
    if not found:
        lines = (folder / "Video.txt").read_text(encoding="ascii").splitlines()
        return [(user, item) for user, item in map(str.split, lines)]
    timed = sorted(chain.from_iterable(map(_timed, found)), key=lambda action: (action[0], action[2]))
    return [(user, item) for user, item, _ in timed]


def _timed(path: Path) -> Iterator[Timed]:
    parse = {".dat": _double_colons, ".csv": _commas}.get(path.suffix, _review)
    number = 0
    try:
        with _opened(path) as file:
            for number, line in enumerate(file, 1):
                if line.strip() and not (parse is _commas and number == 1):  # the header
                    yield parse(line)
    except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
        expected = f"expected {_EXPECTED[parse]} in each line"
        raise click.ClickException(f"{path}, line {max(1, number)}: got {error}, {expected}") from error


def _opened(path: Path) -> IO[str]:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8")
    return path.open(encoding="utf-8")


def _double_colons(line: str) -> Timed:
    user, item, _, time = line.split("::")
    return user, item, float(time)


def _commas(line: str) -> Timed:
    user, item, _, time = line.split(",")
    return user, item, float(time)


def _review(line: str) -> Timed:
    review = json.loads(line)
    user, item, time = next((keys for keys in _KEYS if keys[0] in review), _KEYS[0])
    return str(review[user]), str(review[item]), float(review[time])


_EXPECTED = {
    _double_colons: "user::item::rating::time",
    _commas: "user, item, rating and time",
    _review: f"a JSON object with {', '.join(_KEYS[0])} or {', '.join(_KEYS[1])}",
}
