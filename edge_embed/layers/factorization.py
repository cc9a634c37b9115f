"""Default shapes of tensor-train tables: a number of rows or columns as a product of a few similar factors.

The paper requires factors "as close to each other as possible" ("Tensorized Embedding Layers for Efficient Model
Compression", section 3.4). Its authors' code measures this by the entropy of f / sum(f), and so does this module.
"""

import math
from collections.abc import Iterator, Sequence

from edge_embed.errors import BadInputError
from edge_embed.layers.arguments import checked_count
from edge_embed.packed.tt_shape import MAX_CORES, MIN_CORES

_DEFAULT_CORES = 3
_MOST_FACTORED = 10**9  # rows; the search takes a second at this size


def column_shape(width: int, count: int) -> tuple[int, ...]:
    """Return the most even of all products of ``count`` rising factors that equal ``width``."""
    return max(_products(width, count), key=_evenness)


def row_shape(rows: int, count: int) -> tuple[int, ...]:
    """Return the most even product of ``count`` rising factors that is at least ``rows``.

    Candidates are ``rows`` itself and ``rows`` rounded up to a multiple of 10, 100, ..., which have many divisors.

    Raises:
        BadInputError: for more rows than the search can factor in a second.
    """
    if rows > _MOST_FACTORED:
        raise BadInputError(f"row_shape: got none for {rows} rows, expected one for more than {_MOST_FACTORED} rows")
    roundings = [10**place for place in range(len(str(rows)))]
    return max((column_shape(-(-rows // unit) * unit, count) for unit in roundings), key=_evenness)


def number_of_cores(
    given: int | None, row_shape: Sequence[int] | None = None, col_shape: Sequence[int] | None = None
) -> int:
    """Return the number of cores N: ``given``, the length of the shapes, or 3 by default.

    Raises:
        BadInputError: if a shape is not a sequence, the numbers differ, or the number of cores is outside its range.
    """
    shapes = {"row_shape": row_shape, "col_shape": col_shape}
    for name, shape in shapes.items():
        if shape is not None and not isinstance(shape, Sequence):
            raise BadInputError(f"{name}: got {shape!r:.80}, expected a list of integers, one for each core")
    lengths = {len(shape) for shape in shapes.values() if shape is not None} | ({given} if given is not None else set())
    if len(lengths) > 1:
        raise BadInputError(
            f"row_shape, col_shape and num_cores must state the same number of cores, got {sorted(lengths)}"
        )
    count = lengths.pop() if lengths else _DEFAULT_CORES
    count = checked_count("num_cores", count)
    if not MIN_CORES <= count <= MAX_CORES:
        raise BadInputError(f"number of cores: got {count}, expected {MIN_CORES} to {MAX_CORES}")
    return count


def checked_numbers(name: str, numbers: Sequence[int], count: int) -> tuple[int, ...]:
    """Return ``count`` positive integers as a tuple.

    Raises:
        BadInputError: for other numbers; the message contains ``name``.
    """
    if len(numbers) != count:
        raise BadInputError(f"{name} {list(numbers)} has {len(numbers)} numbers, expected {count}")
    return tuple(checked_count(f"{name}[{k}]", number) for k, number in enumerate(numbers))


def _evenness(factors: tuple[int, ...]) -> float:
    """Return the entropy of the factors as shares of their sum, rounded so that equal products compare equal."""
    total = sum(factors)
    return round(-sum(factor / total * math.log(factor / total) for factor in factors), 12)


def _products(number: int, count: int, least: int = 1) -> Iterator[tuple[int, ...]]:
    """Yield all rising sequences of ``count`` factors, at least ``least`` each, with the product ``number``."""
    if count == 1:
        yield (number,)
        return
    factor = least
    while factor**count <= number:  # ``factor`` is the smallest of ``count`` factors
        if number % factor == 0:
            for others in _products(number // factor, count - 1, factor):
                yield factor, *others
        factor += 1
