"""Part of a compression method in the benchmark."""

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from edge_embed.packed.packed_form import PackedTable


@dataclass(frozen=True)
class BenchMethod:
    """One method's part in the benchmark.

    Attributes:
        sizes: sizes of a table beside rows and columns, by the names of their options.
        random_table: makes a table: (random, n, d, *sizes); raises `BadInputError` if the sizes make no table.
        row: returns operations and stored bytes of a row, on average.
        logits: returns the operations of the logits: (packed, hidden states).
    """

    sizes: tuple[str, ...]
    random_table: Callable[..., PackedTable]
    row: Callable[[Any], tuple[float, float]]
    logits: Callable[[Any, int], float]


@dataclass(frozen=True)
class Kernel:
    """One method's table in the C interface.

    Attributes:
        number: number of the method in ``ee_method``.
        struct: type of its tables.
        fill: makes the struct of a table, which points into the packed arrays.
        takes: whether kernels read tables of these sizes.
        tables: name of the method of its tables; empty if it is that of the kernel.
    """

    number: int
    struct: type[ctypes.Structure]
    fill: Callable[[Any], ctypes.Structure]
    takes: Callable[[Any], bool] = lambda shape: True
    tables: str = ""
