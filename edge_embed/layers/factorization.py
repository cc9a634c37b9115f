"""Shapes of tensor-train tables: a number of rows or columns as a product of a few factors of similar size.

The paper asks for factors "as close to each other as possible" ("Tensorized Embedding Layers for Efficient Model
Compression", section 3.4); its authors' code measures that by the entropy of f / sum(f), as here.
"""

import math
from collections.abc import Iterator, Sequence

from edge_embed.errors import BadInputError
from edge_embed.layers.table import checked_count
from edge_embed.packed.tt_shape import MAX_CORES, MIN_CORES

_DEFAULT_CORES = 3
_MOST_FACTORED = 10**9  # rows; the search takes a second there


def column_shape(width: int, count: int) -> tuple[int, ...]:
    """The most even of all products of ``count`` rising factors that give exactly ``width``."""
    return max(_products(width, count), key=_evenness)


def row_shape(rows: int, count: int) -> tuple[int, ...]:
    """The most even product of ``count`` rising factors with room for ``rows``.

    Tried are ``rows`` itself and ``rows`` rounded up to a multiple of 10, 100, ..., which have many divisors.

    Raises:
        BadInputError: for more rows than are factored in a second.
    """
    if rows > _MOST_FACTORED:
        raise BadInputError(f"row_shape cannot be found for {rows} rows (above {_MOST_FACTORED}): give row_shape")
    roundings = [10**place for place in range(len(str(rows)))]
    return max((column_shape(-(-rows // unit) * unit, count) for unit in roundings), key=_evenness)


def number_of_cores(
    given: int | None, row_shape: Sequence[int] | None = None, col_shape: Sequence[int] | None = None
) -> int:
    """N of a table, ``given`` or that of the shapes; 3 where none says it.

    Raises:
        BadInputError: if a shape is none, they do not agree, or no table has as many cores.
    """
    shapes = {"row_shape": row_shape, "col_shape": col_shape}
    for name, shape in shapes.items():
        if shape is not None and not isinstance(shape, Sequence):
            raise BadInputError(f"{name}: got {shape!r:.80}, expected a list of integers, one for each core")
    lengths = {len(shape) for shape in shapes.values() if shape is not None} | ({given} if given is not None else set())
    if len(lengths) > 1:
        raise BadInputError(f"row_shape, col_shape and num_cores must speak of as many cores, got {sorted(lengths)}")
    count = lengths.pop() if lengths else _DEFAULT_CORES
    count = checked_count("num_cores", count)
    if not MIN_CORES <= count <= MAX_CORES:
        raise BadInputError(f"a tensor train has {MIN_CORES} to {MAX_CORES} cores, got {count}")
    return count


def checked_numbers(name: str, numbers: Sequence[int], count: int) -> tuple[int, ...]:
    """``count`` positive integers, as a tuple.

    Raises:
        BadInputError: for others; ``name`` says which.
    """
    if len(numbers) != count:
        raise BadInputError(f"{name} {list(numbers)} has {len(numbers)} numbers, expected {count}")
    return tuple(checked_count(f"{name}[{k}]", number) for k, number in enumerate(numbers))


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
