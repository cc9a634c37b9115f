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
        struct: the table as its kernels take it; it points into the packed arrays.
        takes: whether kernels read tables of these sizes.
        needs_scratch: whether a look-up needs memory of the caller.
        prepare: makes a struct faster within so many bytes, where that is possible; gives the memory to keep.
    """

    struct: Callable[[Any], ctypes.Structure]
    takes: Callable[[Any], bool] = lambda shape: True
    needs_scratch: bool = False
    prepare: Callable[[Any, int], Any] | None = None
