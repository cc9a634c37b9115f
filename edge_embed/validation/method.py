"""What a compression method tells validation about itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ValidationMethod:
    """One method's part in validation.

    Attributes:
        name: the word for the method at every stage.
        exact: whether rows are selected and not summed up, so that every path gives the same bits.
        locate: says in words where bit ``bit`` of byte ``offset`` of a tensor lies: (packed, tensor, offset, bit)
            -> row, group.
        terms: the largest number of terms that is summed up for an element of a row.
        comparisons: numbers that the training form computes to find the row of one id.
        column: says in words where column ``index`` of a row lies.
    """

    name: str
    exact: bool
    locate: Callable[[Any, str, int, int], str]
    terms: Callable[[Any], int]
    comparisons: Callable[[Any], int]
    column: Callable[[Any, int], str]
