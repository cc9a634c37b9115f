"""Grid of the benchmark of sparse activations: every combination of the requested sizes."""

import os
from dataclasses import dataclass, fields
from typing import Any, Self

from edge_embed.bench.grid import parsed
from edge_embed.errors import BadInputError
from edge_embed.packed.sizes import check_count

FUNCTIONS = ("sparsemax", "entmax15", "entmax", "topk_sparsemax")
ATTENTION = "attention"
USES = (*FUNCTIONS, ATTENTION)


@dataclass(frozen=True)
class ActivationGrid:
    """Lists of values; every combination is measured. An empty list is filled by what suits each use.

    Attributes:
        use: ``sparsemax``, ``entmax15``, ``entmax``, ``topk_sparsemax``, ``attention``.
        dim: numbers n of scores in a row; of attention the queries, and as many keys.
        batch: rows in a call; of attention the sequences.
        k: number of the largest scores of ``topk_sparsemax``.
        threads: threads of every contender.
        rounds: number of rounds in the figures.
        seed: seed of scores and order.

    Raises:
        BadInputError: if a value is invalid.
    """

    use: tuple[str, ...] = USES
    dim: tuple[int, ...] = ()
    batch: tuple[int, ...] = ()
    k: tuple[int, ...] = (10,)
    threads: tuple[int, ...] = (1,)
    rounds: int = 20
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("dim", "batch", "k"):
            for number in getattr(self, name):
                check_count(name, number)
        for number in self.threads:
            check_count("threads", number, most=os.cpu_count() or 1)
        if "topk_sparsemax" in self.use and max(self.k) > min(self.sizes("topk_sparsemax")):
            expected = f"expected at most {min(self.sizes('topk_sparsemax'))}, the scores of a row"
            raise BadInputError(f"k: got {max(self.k)}, {expected}; choose a smaller k or a larger --dim")

    @classmethod
    def parse(cls, **given: Any) -> Self:
        """Return the grid of values from the command line; None means not given.

        Raises:
            BadInputError: if a value is invalid, has no meaning here, or names uses of tables too.
        """
        named = [name for name, value in given.items() if value is not None]
        if strange := [name for name in named if name not in {field.name for field in fields(cls)}]:
            raise BadInputError(f"{strange[0]}: got a value and sparse activations, which have none: leave it out")
        values = {name: parsed(name, given[name]) for name in named}
        if others := [use for use in values.get("use", ()) if use not in USES]:
            raise BadInputError(f"use: got {others[0]!r:.80} and sparse activations: run once for each")
        return cls(**values)

    def sizes(self, use: str) -> tuple[int, ...]:
        """Return the numbers of scores in a row."""
        return self.dim or ((512,) if use == ATTENTION else (512, 4096))

    def batches(self, use: str) -> tuple[int, ...]:
        """Return the rows or sequences in a call."""
        return self.batch or ((1,) if use == ATTENTION else (64,))
