"""Tables of cases in which every value meets every value of each other column, in place of all combinations."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def pairwise(*columns: Sequence[Any]) -> list[tuple[Any, ...]]:
    """A few of the combinations of these values: each pair of values of two columns is in one of them.

    Of the combinations that bring most pairs that are new, the first in their order is taken, so the table is always
    the same.

    Args:
        columns: the values of each; two columns give all combinations.
    """
    left = list(product(*(range(len(column)) for column in columns)))
    pairs = {pair for case in left for pair in _pairs(case)}
    chosen = []
    while pairs:
        best = max(left, key=lambda case: len(_pairs(case) & pairs))
        chosen.append(best)
        left.remove(best)
        pairs -= _pairs(best)
    return [tuple(column[at] for column, at in zip(columns, case, strict=True)) for case in sorted(chosen)]


def _pairs(case: Sequence[int]) -> set[tuple[tuple[int, int], tuple[int, int]]]:
    return set(combinations(enumerate(case), 2))  # type: ignore[arg-type]
