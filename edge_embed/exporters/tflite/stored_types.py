"""Stored tensors of types that no runtime gathers: stored as a type of the same size, converted after the gather."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.exporters.tflite.graph import Graph, Tensor

_GATHERED_AS = {"float16": "int16", "uint16": "int16", "uint32": "int32"}


def store(graph: Graph, name: str, array: NDArray[Any]) -> Tensor:
    """Add an array bit by bit, with a type that can be gathered."""
    return graph.table(name, array.view(_GATHERED_AS.get(array.dtype.name, array.dtype.name)))


def floats(graph: Graph, gathered: Tensor, stored_type: str) -> Tensor:
    """Convert gathered numbers of ``float32``, ``float16`` or ``int8`` to floats, int8 to float32."""
    if stored_type == "float16":
        return graph.bitcast(gathered, "float16")
    return graph.cast(gathered, "float32")


def indices(graph: Graph, gathered: Tensor, stored_type: str) -> Tensor:
    """Convert gathered unsigned numbers to int32."""
    wide = graph.cast(gathered, "int32")
    if stored_type != "uint16":
        return wide
    return graph.binary("FLOOR_MOD", wide, graph.constant(1 << 16))  # numbers from 2^15 on were negative


def zeros_after(array: NDArray[Any]) -> NDArray[Any]:
    """Append a row of zeros to [m, *]."""
    return np.concatenate((array, np.zeros_like(array[:1])))
