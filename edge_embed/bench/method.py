"""The part of a compression method in the benchmark."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edge_embed.packed.packed_form import PackedTable


@dataclass(frozen=True)
class BenchMethod:
    """One method's part in the benchmark.

    Attributes:
        sizes: of a table beside rows and columns, by the names of their options.
        random_table: one of those sizes: (random, n, d, *sizes); raises `BadInputError` where they make no table.
        row: operations, and bytes stored, of a row on average.
        logits: operations of the logits of so many states: (packed, states).
    """

    sizes: tuple[str, ...]
    random_table: Callable[..., PackedTable]
    row: Callable[[Any], tuple[float, float]]
    logits: Callable[[Any, int], float]


@dataclass(frozen=True)
class Kernel:
    """One method's table in the C interface.

    Attributes:
        number: the method's, ``ee_method``.
        struct: the type of its tables.
        fill: a table as its kernels take it; it points into the packed arrays.
        takes: whether kernels read tables of these sizes.
    """

    number: int
    struct: type[ctypes.Structure]
    fill: Callable[[Any], ctypes.Structure]
    takes: Callable[[Any], bool] = lambda shape: True
