"""The functions that a compression method supplies to validation."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ValidationMethod:
    """The part of one method in validation.

    Attributes:
        name: name of the method at every stage.
        exact: whether rows are selected and not summed, so that every path returns the same bits.
        locate: returns in words the place of bit ``bit`` of byte ``offset`` of a tensor: (packed, tensor, offset, bit)
            -> row, group.
        terms: the largest number of terms in the sum for an element of a row.
        comparisons: the number of values that the training form computes to find the row of one id.
        column: returns in words the place of column ``index`` of a row.
    """

    name: str
    exact: bool
    locate: Callable[[Any, str, int, int], str]
    terms: Callable[[Any], int]
    comparisons: Callable[[Any], int]
    column: Callable[[Any, int], str]
