"""Pairwise test cases: every two values of different columns occur together in a case, with few combinations."""

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any


def pairwise(*columns: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Choose a few combinations of values in which each pair of values of two columns occurs.

    Each step chooses the combination with the most new pairs, and of equal ones the first. The result is therefore
    always the same.

    Args:
        columns: the values of each column; two columns give all combinations.
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
