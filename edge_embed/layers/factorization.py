"""Shapes of tensor-train tables: a number of rows or columns as a product of a few factors of similar size.

The paper asks for factors "as close to each other as possible" ("Tensorized Embedding Layers for Efficient Model
Compression", section 3.4); its authors' code measures that by the entropy of f / sum(f), as here.
"""

import math
from collections.abc import Iterator


def column_shape(width: int, count: int) -> tuple[int, ...]:
    """The most even of all products of ``count`` rising factors that give exactly ``width``."""
    return max(_products(width, count), key=_evenness)


def row_shape(rows: int, count: int) -> tuple[int, ...]:
    """The most even product of ``count`` rising factors with room for ``rows``.

    Tried are ``rows`` itself and ``rows`` rounded up to a multiple of 10, 100, ..., which have many divisors.
    """
    roundings = [10**place for place in range(len(str(rows)))]
    return max((column_shape(-(-rows // unit) * unit, count) for unit in roundings), key=_evenness)


def _evenness(factors: tuple[int, ...]) -> float:
    """Entropy of the factors as shares of their sum; rounded, so that the first of equals wins."""
    total = sum(factors)
    return round(-sum(factor / total * math.log(factor / total) for factor in factors), 12)


def _products(number: int, count: int, least: int = 1) -> Iterator[tuple[int, ...]]:
    """All rising sequences of ``count`` factors from ``least`` on with the product ``number``."""
    if count == 1:
        yield (number,)
        return
    factor = least
    while factor**count <= number:  # the least of ``count`` factors
        if number % factor == 0:
            for others in _products(number // factor, count - 1, factor):
                yield factor, *others
        factor += 1
