"""Stored tensors whose type no runtime gathers: kept under a type of the same size, and turned back once gathered."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.exporters.tflite.graph import Graph, Tensor

_GATHERED_AS = {"float16": "int16", "uint16": "int16", "uint32": "int32"}


def store(graph: Graph, name: str, array: NDArray[Any]) -> Tensor:
    """Add an array bit by bit, under a type that can be gathered."""
    return graph.table(name, array.view(_GATHERED_AS.get(array.dtype.name, array.dtype.name)))


def floats(graph: Graph, gathered: Tensor, stored_type: str) -> Tensor:
    """Gathered numbers of ``float32``, ``float16`` or ``int8`` as floats, int8 as the same numbers in float32."""
    if stored_type == "float16":
        return graph.bitcast(gathered, "float16")
    return graph.cast(gathered, "float32")


def indices(graph: Graph, gathered: Tensor, stored_type: str) -> Tensor:
    """Gathered unsigned numbers as int32."""
    wide = graph.cast(gathered, "int32")
    if stored_type != "uint16":
        return wide
    return graph.binary("FLOOR_MOD", wide, graph.constant(1 << 16))  # from 2^15 on they were negative


def zeros_after(array: NDArray[Any]) -> NDArray[Any]:
    """[m, *] with one more row, which is zero."""
    return np.concatenate((array, np.zeros_like(array[:1])))
