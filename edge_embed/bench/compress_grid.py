"""Grid of the benchmark of compression: every combination of the requested sizes."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import product
from pathlib import Path
from typing import Any, Self

from edge_embed.bench.compressors import METHODS
from edge_embed.bench.grid import parsed
from edge_embed.errors import BadInputError
from edge_embed.fitting import dpq
from edge_embed.fitting.setting import Setting
from edge_embed.packed.sizes import check_count

USE = "compress"
_OF_TABLES = ("rows", "dim")


@dataclass(frozen=True)
class CompressGrid:
    """Lists of values; every combination is measured.

    Attributes:
        method: ``dpq``, ``tt``, ``low_rank``, ``ant``; the default omits ``ant``, which takes the longest.
        rows: n.
        dim: d.
        codes: K of DPQ.
        groups: D of DPQ; by default a quarter of the columns, or the next lower number that divides them.
        anchors: A of ANT.
        nonzeros: weights a row of ANT.
        rank: rank of TT and low rank.
        threads: threads of every contender.
        rounds: number of rounds in the figures.
        seed: seed of tables, methods and order.

    Raises:
        BadInputError: if a value is invalid.
    """

    method: tuple[str, ...] = ("dpq", "tt", "low_rank")
    rows: tuple[int, ...] = (27_000,)
    dim: tuple[int, ...] = (128,)
    codes: tuple[int, ...] = (16, 256)
    groups: tuple[int, ...] = ()
    anchors: tuple[int, ...] = (100,)
    nonzeros: tuple[int, ...] = (8,)
    rank: tuple[int, ...] = (16,)
    threads: tuple[int, ...] = (1,)
    rounds: int = 5
    seed: int = 0

    def __post_init__(self) -> None:
        for method in self.method:
            if method not in METHODS:
                known = f"expected some of {', '.join(METHODS)}, which have a peer of equal size; leave it out"
                raise BadInputError(f"method: got {method!r:.80}, {known}")
        for name in (*_OF_TABLES, "codes", "groups", "anchors", "nonzeros", "rank"):
            for number in getattr(self, name):
                check_count(name, number)
        for number in self.threads:
            check_count("threads", number, most=os.cpu_count() or 1)

    @classmethod
    def parse(cls, file: Path | None, **given: Any) -> Self:
        """Return the grid of values from the command line; None means not given.

        Raises:
            BadInputError: if a value is invalid, or has no meaning here.
        """
        named = [name for name, value in given.items() if value is not None]
        if strange := [name for name in named if name not in {field.name for field in fields(cls)}]:
            raise BadInputError(f"{strange[0]}: got a value, expected none with --use {USE}; leave it out")
        for name in _OF_TABLES:
            if file is not None and name in named:
                raise BadInputError(
                    f"{name}: got a value and a file, but the option is for random tables; leave one of them out"
                )
        return cls(**{name: parsed(name, given[name]) for name in named})

    def settings(self, n: int, dim: int) -> list[Setting]:
        """Return all settings for a table.

        Raises:
            BadInputError: if sizes do not fit the table.
        """
        found = []
        for method in dict.fromkeys(self.method):
            names = METHODS[method].sizes
            values = [getattr(self, name) or (_most_groups(dim),) for name in names]  # only groups can be empty
            for sizes in product(*values):
                _check_sizes(n, dim, dict(zip(names, sizes, strict=True)))
                found.append(Setting(method, dict(zip(names.values(), sizes, strict=True))))
                if method == "dpq":
                    dpq.without_numbers(n, dim, *sizes)  # refused now, not after minutes
        return found


def _most_groups(dim: int) -> int:
    return next(groups for groups in range(max(1, dim // 4), 0, -1) if dim % groups == 0)


def _check_sizes(n: int, dim: int, sizes: Mapping[str, int]) -> None:
    if sizes.get("rank", 0) > min(n, dim):
        expected = f"expected at most {min(n, dim)}, the smaller of rows and columns"
        raise BadInputError(f"rank: got {sizes['rank']}, {expected}; choose a smaller rank")
    for name in ("codes", "anchors"):
        if sizes.get(name, 0) > n:
            remedy = "choose fewer, or a table with more rows"
            raise BadInputError(f"{name}: got {sizes[name]}, expected at most {n}, the rows of the table; {remedy}")
    if sizes.get("nonzeros", 0) > sizes.get("anchors", 0):
        expected = f"expected at most {sizes['anchors']}, the number of anchors"
        raise BadInputError(f"nonzeros: got {sizes['nonzeros']}, {expected}; choose fewer")
