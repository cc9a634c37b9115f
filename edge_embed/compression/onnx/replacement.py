"""The nodes that replace those of a dense table.

    rows      <X>Embedding (ids from 0 on, tensors), and a Cast if rows have another type than those of the table
    logits    <X>Logits (hidden, tensors), between Casts if hidden states have another type than the table

Other steps of a product become nodes too: Mul for alpha and beta, Add for the bias.

A rotation of the rows is one more ``MatMul`` in float32: rows times the rotation, or hidden states times its transpose.

Gather operators count negative ids from the end, but the packed lookup refuses them. So n is added to negative ids
first: each id keeps its meaning, and ids out of range are refused as before. If they returned a row of zeros, zeros
replace their rows. Rows of a table of more dimensions, or along another axis, are reshaped to their former shape.
"""

import math
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper

from edge_embed.compression.onnx.dense_tables import OnnxTable
from edge_embed.compression.onnx.free_names import Names
from edge_embed.compression.onnx.products import product_of
from edge_embed.compression.onnx.table_uses import Use, values_of
from edge_embed.exporters.onnx.bodies import method_of
from edge_embed.exporters.onnx.names import DOMAIN
from edge_embed.fitting.fitted_table import ROTATION, Stored
from edge_embed.lowering.graph import METHODS as LOWERED
from edge_embed.packed.packed_form import Use as PackedUse
from edge_embed.packed.stored_names import stored_name

_ONNX_TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16, "bfloat16": TensorProto.BFLOAT16}


@dataclass(frozen=True)
class _Tensor:
    """A packed tensor of the model."""

    name: str
    shape: tuple[int, ...]


@dataclass(frozen=True)
class _Scaled:
    """A factor, and the name of a value to add times that factor; without a name the result itself is scaled."""

    factor: float
    added: str = ""


@dataclass(frozen=True)
class _Ids:
    """Ids from 0 on; ``inside`` marks ids of rows, if other ids return zeros."""

    place: str
    inside: str = ""


class Replacement:
    """Creates the nodes of one table."""

    def __init__(self, names: Names, table: OnnxTable, name: str, stored: Stored) -> None:
        self._names, self._table, self._name = names, table, name
        packed = self._packed = stored.plain
        self._rotation = stored.rotation
        method = LOWERED[packed.method]
        self._method = method_of(method.operators(packed))
        tensors: list[Any] = [_Tensor(stored_name(name, key), array.shape) for key, array in packed.tensors().items()]
        inputs, attributes = self._method.table(*method.arguments(packed, tensors))
        self._attributes: dict[str, Any] = attributes
        self._inputs = [tensor.name for tensor in inputs]
        self._ids: dict[tuple[Any, ...], _Ids] = {}

    def nodes(self, use: Use) -> Iterator[NodeProto]:
        """Yield the nodes that replace a node; uses of one graph must come in the order of their places."""
        result = use.node.output[0]
        if use.kind == "shape":
            yield self._plain("Constant", [], result, value=_sizes(use))
            return
        steps = [*_steps(use.node)]
        names = [self._names.free(f"{result}.product") for _ in steps] + [result]
        yield from self._rows(use, names[0]) if use.kind == "rows" else self._logits(use, names[0])
        for (op_type, operand), before, after in zip(steps, names, names[1:], strict=False):
            yield from self._step(op_type, operand, before, after, use.dtype)

    def _step(self, op_type: str, operand: str | _Scaled, given: str, result: str, dtype: str) -> Iterator[NodeProto]:
        """Yield an Add, or a Mul with a number."""
        if isinstance(operand, str):
            yield self._plain(op_type, [given, operand], result)
            return
        factor, other = self._names.free(f"{result}.factor"), given
        number = helper.make_tensor(factor, _ONNX_TYPES[dtype], [], [operand.factor])
        yield self._plain("Constant", [], factor, value=number)
        if operand.added:
            other = self._names.free(f"{result}.added")
            yield self._plain("Mul", [operand.added, factor], other)
            yield self._plain("Add", [given, other], result)
        else:
            yield self._plain("Mul", [given, factor], result)

    def _rows(self, use: Use, result: str) -> Iterator[NodeProto]:
        key = (id(use.scope), use.ids, use.has_column, use.rule)
        if key not in self._ids:
            self._ids[key] = yield from self._checked(use)
        ids = self._ids[key]
        is_flat = not use.lead and len(use.trail) == 1
        shaped = result if is_flat else self._names.free(f"{result}.flat")
        found = self._names.free(f"{shaped}.found") if ids.inside else shaped
        yield from self._looked_up(ids.place, found, use)
        if ids.inside:
            yield from self._or_zeros(ids.inside, found, shaped, use.dtype)
        if not is_flat:
            yield from self._shaped(use, ids.place, shaped, result)

    def _looked_up(self, ids: str, rows: str, use: Use) -> Iterator[NodeProto]:
        is_plain = self._packed.row_type == use.dtype and self._rotation is None
        found = rows if is_plain else self._names.free(f"{rows}.packed")
        yield self._node("rows", [ids], found, use.node.name)
        if self._rotation is not None:
            yield from self._rotated(found, self._packed.row_type, rows, use.dtype)
        elif not is_plain:
            yield self._plain("Cast", [found], rows, to=_ONNX_TYPES[use.dtype])

    def _rotated(
        self, given: str, dtype: str, result: str, wanted: str, is_hidden: bool = False
    ) -> Iterator[NodeProto]:
        """Yield nodes for ``result`` of type ``wanted``: rows times the rotation, or states times its transpose."""
        names = given, f"{self._name}.{ROTATION}"
        assert self._rotation is not None
        factors = []
        for name, kind in zip(names, (dtype, self._rotation.dtype.name), strict=True):
            factors.append(name if kind == "float32" else self._names.free(f"{result}.wide"))
            if kind != "float32":
                yield self._plain("Cast", [name], factors[-1], to=TensorProto.FLOAT)
        if is_hidden:
            transposed = self._names.free(f"{result}.transposed")
            yield self._plain("Transpose", factors[1:], transposed)
            factors[1] = transposed
        is_wide = wanted == "float32"
        product = result if is_wide else self._names.free(f"{result}.product")
        yield self._plain("MatMul", factors, product)
        if not is_wide:
            yield self._plain("Cast", [product], result, to=_ONNX_TYPES[wanted])

    def _checked(self, use: Use) -> Generator[NodeProto, None, _Ids]:
        """Yield nodes that map the ids of a use to ids from 0 on."""
        prefix, count = f"{self._name}.{use.ids}", self._packed.num_embeddings
        zero, number, wide = (self._names.free(f"{prefix}.{name}") for name in ("zero", "count", "wide"))
        yield self._plain("Constant", [], zero, value_int=0)
        yield self._plain("Constant", [], number, value_int=count)
        flat = use.ids
        if use.has_column:
            last, flat = (self._names.free(f"{prefix}.{name}") for name in ("last", "flat"))
            yield self._plain("Constant", [], last, value_ints=[-1])
            yield self._plain("Squeeze", [use.ids, last], flat)
        yield self._plain("Cast", [flat], wide, to=TensorProto.INT64)
        place = wide
        if use.rule != "zeros":
            below, more, place = (self._names.free(f"{prefix}.{name}") for name in ("below", "more", "place"))
            yield self._plain("Less", [wide, zero], below)
            yield self._plain("Where", [below, number, zero], more)
            yield self._plain("Add", [wide, more], place)
        if use.rule == "wraps":
            return _Ids(place)
        low, high, inside, safe = (self._names.free(f"{prefix}.{name}") for name in ("low", "high", "inside", "safe"))
        yield self._plain("GreaterOrEqual", [place, zero], low)
        yield self._plain("Less", [place, number], high)
        yield self._plain("And", [low, high], inside)
        yield self._plain("Where", [inside, place, zero], safe)
        return _Ids(safe, inside)

    def _or_zeros(self, inside: str, rows: str, result: str, dtype: str) -> Iterator[NodeProto]:
        last, column, zeros = (self._names.free(f"{result}.{name}") for name in ("last", "is_row", "zeros"))
        nothing = helper.make_tensor(zeros, _ONNX_TYPES[dtype], [], [0.0])
        yield self._plain("Constant", [], last, value_ints=[-1])
        yield self._plain("Unsqueeze", [inside, last], column)
        yield self._plain("Constant", [], zeros, value=nothing)
        yield self._plain("Where", [column, rows, zeros], result)

    def _shaped(self, use: Use, ids: str, rows: str, result: str) -> Iterator[NodeProto]:
        """Yield nodes that reshape rows [ids, d] to the axes of the table: [before, ids, after]."""
        lead, trail = use.lead, use.trail
        shape, sizes = (self._names.free(f"{result}.{name}") for name in ("ids_shape", "sizes"))
        yield self._plain("Shape", [ids], shape)
        if int(np.prod(lead, dtype=np.int64)) > 1:
            flat, split, front = (self._names.free(f"{result}.{name}") for name in ("split_sizes", "split", "front"))
            count, before = (self._names.free(f"{result}.{name}") for name in ("ids_count", "block"))
            yield self._plain(
                "Constant", [], before, value_ints=[int(np.prod(lead)), int(np.prod(trail, dtype=np.int64))]
            )
            yield from self._count(ids, count)
            yield self._plain("Concat", [count, before], flat, axis=0)
            yield self._plain("Reshape", [rows, flat], split, allowzero=1)
            yield self._plain("Transpose", [split], front, perm=[1, 0, 2])
            rows = front
        parts = []
        for name, part in (("before", lead), ("", ()), ("after", trail)):
            if not name:
                parts.append(shape)
            elif part:
                parts.append(self._names.free(f"{result}.{name}"))
                yield self._plain("Constant", [], parts[-1], value_ints=[*part])
        yield self._plain("Concat", parts, sizes, axis=0)
        yield self._plain("Reshape", [rows, sizes], result, allowzero=1)

    def _count(self, ids: str, result: str) -> Iterator[NodeProto]:
        """Yield nodes that compute the number of ids, [1]."""
        size, one = (self._names.free(f"{result}.{name}") for name in ("size", "one"))
        yield self._plain("Size", [ids], size)
        yield self._plain("Constant", [], one, value_ints=[1])
        yield self._plain("Reshape", [size, one], result)

    def _logits(self, use: Use, result: str) -> Iterator[NodeProto]:
        hidden, dtype, logits = use.node.input[0], self._table.logits_type, result
        if dtype != use.dtype:
            given, hidden = hidden, self._names.free(f"{result}.hidden")
            logits = self._names.free(f"{result}.logits")
            yield self._plain("Cast", [given], hidden, to=_ONNX_TYPES[dtype])
        if self._rotation is not None:
            given, hidden = hidden, self._names.free(f"{result}.rotated")
            yield from self._rotated(given, dtype, hidden, dtype, is_hidden=True)
        yield self._node("logits", [hidden], logits, use.node.name)
        if dtype != use.dtype:
            yield self._plain("Cast", [logits], result, to=_ONNX_TYPES[use.dtype])

    def _node(self, use: PackedUse, leading: Sequence[str], result: str, name: str) -> NodeProto:
        op_type = self._method.operator(use).op_type
        inputs = [*leading, *self._inputs]
        return helper.make_node(op_type, inputs, [result], name or None, domain=DOMAIN, **self._attributes)

    def _plain(self, op_type: str, inputs: Sequence[str], result: str, **attributes: Any) -> NodeProto:
        return helper.make_node(op_type, inputs, [result], self._names.free(f"{result}.{op_type}"), **attributes)


def _sizes(use: Use) -> TensorProto:
    shape, values = use.known.shape, values_of(use.node)
    if use.node.op_type == "Size":
        return helper.make_tensor("size", TensorProto.INT64, [], [math.prod(shape)])
    part = shape[values.get("start", 0) : values.get("end", len(shape))]
    return helper.make_tensor("shape", TensorProto.INT64, [len(part)], part)


def _steps(node: NodeProto) -> Iterator[tuple[str, str | _Scaled]]:
    """Yield the steps that a product applies to its result, in order."""
    if node.op_type == "MatMulNBits":
        yield from (("Add", bias) for bias in node.input[5:] if bias)
        return
    product = product_of(node)
    if product is not None and product.alpha != 1:
        yield "Mul", _Scaled(product.alpha)
    if product is not None and product.added and product.beta != 0:
        yield "Add", product.added if product.beta == 1 else _Scaled(product.beta, product.added)
