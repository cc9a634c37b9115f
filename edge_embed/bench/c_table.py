"""Tables for the C interface: ``ee_table``, a tag and the struct of a method."""

import ctypes
from typing import Any

from edge_embed.bench.c_types import INT32
from edge_embed.bench.method import Kernel
from edge_embed.methods import Parts
from edge_embed.packed.packed_form import PackedTable, TableShape

KERNELS: Parts[Kernel] = Parts("kernels")
TABLE_VERSION = 1


def kernel_of(method: str, shape: TableShape) -> str | None:
    """Return the name of the kernels for tables of a method with these sizes, or None if there are none."""
    every = KERNELS.items()
    return next((name for name, kernel in every if (kernel.tables or name) == method and kernel.takes(shape)), None)


def table_type() -> type[ctypes.Structure]:
    """Return the type of the struct, which has room for the largest of all methods."""
    parts = type("Parts", (ctypes.Union,), {"_fields_": [(name, kernel.struct) for name, kernel in KERNELS.items()]})
    fields = [("version", INT32), ("method", INT32), ("parts", parts)]
    return type("Table", (ctypes.Structure,), {"_anonymous_": ("parts",), "_fields_": fields})


def table_of(packed: PackedTable) -> Any:
    """Return one table, which points into the arrays of its packed form; some kernels must take it."""
    name = kernel_of(packed.method, packed.shape) or packed.method
    kernel = KERNELS[name]
    table = table_type()(version=TABLE_VERSION, method=kernel.number)
    setattr(table, name, kernel.fill(packed))
    return table
