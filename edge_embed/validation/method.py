"""What a compression method tells validation about itself."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ValidationMethod:
    """One method's part in validation.

    Attributes:
        name: the word for the method at every stage.
        locate: says in words where bit ``bit`` of byte ``offset`` of a tensor lies: (packed, tensor, offset, bit)
            -> row, group.
        comparisons: numbers that the training form computes to find the row of one id.
        column: says in words where column ``index`` of a row lies.
    """

    name: str
    locate: Callable[[Any, str, int, int], str]
    comparisons: Callable[[Any], int]
    column: Callable[[Any, int], str]
