"""Operators of TFLite that look up rows of a constant, and the axes of the rows.

    GATHER             table [B..., A..., n, ...], ids [B..., *]  ->  [B..., A..., *, ...]     B: batch_dims, axis: of n
    GATHER_ND          table [n_1, ..., n_k, ...], ids [*, k]     ->  [*, ...]
    EMBEDDING_LOOKUP   table [n, ...], ids [m]                    ->  [m, ...]      float32 also of int8, int4, int2
    FULLY_CONNECTED    ONE_HOT [*, n] times table [d, n]          ->  [*, d]
    BATCH_MATMUL       ONE_HOT [*, n] times table [n, d], or the transpose of [d, n]

A product with ONE_HOT returns zeros for an id out of range.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.compression.tflite.constant_origins import Origin, Origins, tensor_of
from edge_embed.compression.tflite.dequantize import kind_of
from edge_embed.compression.tflite.subgraph_calls import numbers, operator_name

_BITS = {"int4": 4, "int2": 2}
# The types of numbers, without DEQUANTIZE before the operator.
_LOOKED_UP = {
    "EMBEDDING_LOOKUP": ("float32", "int8", "int4", "int2"),
    "GATHER": ("float32", "float16", "int8", "uint8", "int16", "int4"),
    "GATHER_ND": ("float32", "float16", "int8", "uint8", "int16"),
}
_PRODUCTS = ("FULLY_CONNECTED", "BATCH_MATMUL")


@dataclass(frozen=True)
class Lookup:
    """An operator that looks up rows.

    Attributes:
        name: name of the operator in the schema.
        operator: the operator, of the schema's classes.
        origin: the table.
        row_axes: the axes of the constant that index its rows, in order; the other axes are those of a row.
        ids: number of the tensor of ids.
        batch: number of row axes that are batch dimensions, which ids have too.
        one_hot: the operator that converts the ids to rows of ones and zeros, if any.
        reason: why no packed table can replace it; empty if one can.
    """

    name: str
    operator: Any
    origin: Origin
    row_axes: tuple[int, ...]
    ids: int
    batch: int = 0
    one_hot: Any = None
    reason: str = ""

    @property
    def result(self) -> int:
        """Return the number of the result's tensor."""
        return numbers(self.operator.outputs)[0]

    def rows(self, stored: NDArray[Any]) -> NDArray[Any]:
        """Return the constant as rows [n, d]."""
        front = np.moveaxis(stored, self.row_axes, range(len(self.row_axes)))
        count = math.prod(front.shape[: len(self.row_axes)])
        return np.ascontiguousarray(front.reshape(count, -1 if count else 0))


def find_lookup(model: Any, origins: Origins, number: int, operator: Any) -> Lookup | None:
    """Return the lookup of an operator of a subgraph, or None if it does something else."""
    find = _FINDERS.get(operator_name(model, operator))
    found = None if find is None else find(model, origins, number, operator)
    if found is None:
        return None
    table = origins.tensor(found.origin)
    if len(found.row_axes) >= len(numbers(table.shape)):  # single numbers
        return None
    reason = _why_not(found, table, tensor_of(model.subgraphs[number], found.result))
    return replace(found, reason=reason)


def _gather(model: Any, origins: Origins, number: int, operator: Any) -> Lookup | None:
    table, ids = numbers(operator.inputs)[:2]
    origin = origins.of(number, table)
    if origin is None:
        return None
    rank, id_rank = (len(numbers(shape)) for shape in _shapes(model, number, table, ids))
    options = operator.builtinOptions
    axis, batch = (0, 0) if options is None else (options.axis, options.batchDims)
    axis, batch = axis + rank * (axis < 0), batch + id_rank * (batch < 0)
    if not 0 <= batch <= axis < rank:
        raise ValueError(f"GATHER along axis {axis} with {batch} batch dimensions of {rank}")
    return Lookup("GATHER", operator, origin, (*range(batch), axis), ids, batch)


def _gather_nd(model: Any, origins: Origins, number: int, operator: Any) -> Lookup | None:
    table, ids = numbers(operator.inputs)[:2]
    origin, (_, shape) = origins.of(number, table), _shapes(model, number, table, ids)
    if origin is None or not len(shape):
        return None
    axes, rank = numbers(shape)[-1], len(numbers(origins.tensor(origin).shape))
    if not 0 <= axes <= rank:
        raise ValueError(f"GATHER_ND along {axes} axes of {rank}")
    return Lookup("GATHER_ND", operator, origin, tuple(range(axes)), ids)


def _embedding_lookup(model: Any, origins: Origins, number: int, operator: Any) -> Lookup | None:
    ids, table = numbers(operator.inputs)[:2]
    origin = origins.of(number, table)
    return None if origin is None else Lookup("EMBEDDING_LOOKUP", operator, origin, (0,), ids)


def _product(model: Any, origins: Origins, number: int, operator: Any) -> Lookup | None:
    """Return the lookup of a product with rows of ones and zeros, or None."""
    hot, table = numbers(operator.inputs)[:2]
    origin, one_hot = origins.of(number, table), origins.producers[number].get(hot)
    if origin is None or one_hot is None or operator_name(model, one_hot) != "ONE_HOT":
        return None
    name, options = operator_name(model, operator), operator.builtinOptions
    shape, hot_shape = (numbers(each) for each in _shapes(model, number, table, hot))
    if not 2 <= len(shape) <= len(hot_shape) or set(shape[:-2]) - {1}:
        return None
    axis = len(shape) - (1 if name == "FULLY_CONNECTED" or options.adjY else 2)
    if not _is_identity(model, origins, number, one_hot, shape[axis], len(hot_shape)):
        return None
    if name == "BATCH_MATMUL" and options.adjX:
        return None
    return Lookup(name, operator, origin, (axis,), numbers(one_hot.inputs)[0], one_hot=one_hot)


def _is_identity(model: Any, origins: Origins, number: int, one_hot: Any, rows: int, rank: int) -> bool:
    """Return whether ``ONE_HOT`` returns float32 zeros with a 1, one per row, along the last axis."""
    constants = []
    for tensor in numbers(one_hot.inputs)[1:4]:
        origin = origins.of(number, tensor)
        if origin is None or origin.dequantized:
            return False
        found = origins.tensor(origin)
        if kind_of(found) not in ("int32", "float32"):
            return False
        constants.append(np.asarray(model.buffers[found.buffer].data, np.uint8).view(f"<{kind_of(found)[0]}4").tolist())
    axis = -1 if one_hot.builtinOptions is None else one_hot.builtinOptions.axis
    made = tensor_of(model.subgraphs[number], numbers(one_hot.outputs)[0])
    return constants == [[rows], [1.0], [0.0]] and axis in (-1, rank - 1) and kind_of(made) == "float32"


def _why_not(found: Lookup, table: Any, result: Any) -> str:
    if found.name in _PRODUCTS:
        return _why_no_product(found, kind_of(table))
    if found.origin.dequantized:
        return ""
    kind, width = kind_of(table), math.prod(numbers(table.shape)[1:])
    if kind not in _LOOKED_UP[found.name]:
        return f"{found.name} reads its numbers as {kind}, which LiteRT does not dequantise: convert it to float32"
    if kind in _BITS and width * _BITS[kind] % 8:
        return f"its rows of {width} {kind} numbers begin inside a byte, and LiteRT misreads them: convert it to int8"
    if kind == "float32":
        return ""
    return _why_not_as_stored(found, table, result)


def _why_not_as_stored(found: Lookup, table: Any, result: Any) -> str:
    """Return the reason for quantised rows that are looked up without dequantisation, or an empty string."""
    if found.name == "EMBEDDING_LOOKUP":
        zeros = None if table.quantization is None else table.quantization.zeroPoint
        wrong = zeros is not None and np.any(np.asarray(zeros))
        return "it has zero points, which EMBEDDING_LOOKUP does not support: quantise it symmetrically" if wrong else ""
    if kind_of(table) == "float16":
        return ""
    scales = [_one_scale(tensor) for tensor in (table, result)]
    if scales[0] is None or scales[0] != scales[1]:
        return f"{found.name} requires one scale for all integers: quantise it with one scale, or keep it as floats"
    return ""


def _one_scale(tensor: Any) -> tuple[float, int] | None:
    """Return the only scale and zero point of a tensor, or None if it has another number of them."""
    of = tensor.quantization
    if of is None or of.scale is None or len(of.scale) != 1:
        return None
    return float(of.scale[0]), int(of.zeroPoint[0]) if of.zeroPoint is not None and len(of.zeroPoint) else 0


def _why_no_product(found: Lookup, kind: str) -> str:
    if kind != "float32" and not found.origin.dequantized:
        return f"{found.name} of ONE_HOT and {kind} numbers quantises both: convert it to float32"
    if found.name == "FULLY_CONNECTED" and found.operator.builtinOptions.weightsFormat:
        return "FULLY_CONNECTED stores it in a processor-specific order: convert the model without that order"
    return ""


def _shapes(model: Any, number: int, *tensors: int) -> list[Any]:
    return [tensor_of(model.subgraphs[number], tensor).shape for tensor in tensors]


_FINDERS: Mapping[str, Callable[[Any, Origins, int, Any], Lookup | None]] = {
    "GATHER": _gather,
    "GATHER_ND": _gather_nd,
    "EMBEDDING_LOOKUP": _embedding_lookup,
    "FULLY_CONNECTED": _product,
    "BATCH_MATMUL": _product,
}
LOOKUPS = ("GATHER", "GATHER_ND", "EMBEDDING_LOOKUP", "ONE_HOT")
