"""Packed tables in the place of the dense ones of an ONNX file.

    Gather (table, ids)                       <X>Embedding (ids from 0 on, tensors), and a Cast where rows have another
                                              type than the table had
    MatMul (hidden, Transpose (table))        <X>Logits (hidden, tensors)
    Gemm (hidden, table, bias), transB = 1    the same, and an Add

A rotation of the rows is one more ``MatMul``, of rows with it, and of hidden states with its transpose, in float32.

``Gather`` counts negative ids from the end, the packed look-up refuses them: what is below 0 gets n more first, so
each id means what it meant, and those out of range are refused as before. Whatever else is in the file stays.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, helper, numpy_helper

from edge_embed.compression.fitted import ROTATION, Stored
from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.bodies import METHODS, OPERATORS, Body, check_count, needed_bodies
from edge_embed.exporters.onnx.foreign.names import Names
from edge_embed.exporters.onnx.foreign.tables import OnnxTable
from edge_embed.exporters.onnx.method import OnnxOperator
from edge_embed.exporters.onnx.names import DOMAIN, DOMAIN_VERSION, MANIFEST_KEY
from edge_embed.lowering.graph import METHODS as LOWERED
from edge_embed.packed.form import Use
from edge_embed.packed.manifest import parse_manifest, write_manifest

_LEAST_IR = 8  # which has functions
_ONNX_TYPES = {"float32": TensorProto.FLOAT, "float16": TensorProto.FLOAT16}


def replace_tables(model: ModelProto, opset: int, tables: Mapping[OnnxTable, Stored]) -> dict[str, str]:
    """Change a model.

    Args:
        model: the one that the tables are of.
        opset: of its standard operators, from that of our functions on.
        tables: what is stored, of the same n and d, of those that need not stay.

    Returns:
        The names of the packed tables in the manifest, by name of the dense one.

    Raises:
        BadInputError: if tables of one method differ in the number of their tensors, or the model has functions or
            tables of another release of ours.
    """
    names, before = Names(model), metadata_of(model, MANIFEST_KEY)
    known = set() if before is None else set(parse_manifest(before, 0).tables)
    named: dict[str, Stored] = {}
    packed_names: dict[str, str] = {}
    nodes: dict[int, list[NodeProto]] = {}
    for table, stored in tables.items():
        name = names.free_table(table.name, stored.arrays(), known | named.keys())
        named[name], packed_names[table.name] = stored, name
        nodes |= _Replacement(model, names, table, name, stored).run()
    gone = {name for table in tables for name in (table.constant, *table.twins)}
    gone |= {name for table in tables for place in table.helpers for name in model.graph.node[place].output}
    _put_in(model, nodes)
    _drop(model.graph, gone)
    _add_tensors(model, named)
    _add_bodies(model, opset)
    set_metadata(model, MANIFEST_KEY, write_manifest({name: stored.plain for name, stored in named.items()}, before))
    return packed_names


@dataclass(frozen=True)
class _Tensor:
    """A packed tensor of the model."""

    name: str
    shape: tuple[int, ...]


class _Replacement:
    """The nodes of one table."""

    def __init__(self, model: ModelProto, names: Names, table: OnnxTable, name: str, stored: Stored) -> None:
        self._model, self._names, self._table, self._name = model, names, table, name
        packed = self._packed = stored.plain
        self._rotation = stored.rotation
        (method,) = (method for method in LOWERED if method.name == packed.method)
        (self._method,) = (one for one in METHODS if one.operators is method.operators(packed))
        tensors: list[Any] = [_Tensor(f"{name}.{key}", array.shape) for key, array in packed.tensors().items()]
        inputs, attributes = self._method.table(*method.arguments(packed, tensors))
        self._attributes: dict[str, Any] = attributes
        self._inputs = [tensor.name for tensor in inputs]
        self._places: dict[str, str] = {}

    def run(self) -> dict[int, list[NodeProto]]:
        """What stands in the place of which node."""
        nodes = self._model.graph.node
        made: dict[int, list[NodeProto]] = {place: [] for place in self._table.helpers}
        made |= {place: list(self._rows(nodes[place])) for place in sorted(self._table.lookups)}
        return made | {place: list(self._logits(nodes[place])) for place in self._table.heads}

    def _rows(self, gather: NodeProto) -> Iterator[NodeProto]:
        ids, rows = gather.input[1], gather.output[0]
        if ids not in self._places:
            yield from self._count_from_0(ids)
        is_plain = self._packed.row_type == self._table.dtype and self._rotation is None
        found = rows if is_plain else self._names.free(f"{rows}.packed")
        yield self._node("rows", [self._places[ids]], found, gather.name)
        if self._rotation is not None:
            yield from self._rotated(found, self._packed.row_type, rows)
        elif not is_plain:
            yield self._plain("Cast", [found], rows, to=_ONNX_TYPES[self._table.dtype])

    def _rotated(self, given: str, dtype: str, result: str, is_head: bool = False) -> Iterator[NodeProto]:
        """``result``, of the type of the table: rows of a type times the rotation, or hidden states turned back."""
        names = given, f"{self._name}.{ROTATION}"
        assert self._rotation is not None
        factors = []
        for name, kind in zip(names, (dtype, self._rotation.dtype.name), strict=True):
            factors.append(name if kind == "float32" else self._names.free(f"{result}.wide"))
            if kind != "float32":
                yield self._plain("Cast", [name], factors[-1], to=TensorProto.FLOAT)
        if is_head:
            turned = self._names.free(f"{result}.transposed")
            yield self._plain("Transpose", factors[1:], turned)
            factors[1] = turned
        is_wide = self._table.dtype == "float32"
        product = result if is_wide else self._names.free(f"{result}.product")
        yield self._plain("MatMul", factors, product)
        if not is_wide:
            yield self._plain("Cast", [product], result, to=_ONNX_TYPES[self._table.dtype])

    def _count_from_0(self, ids: str) -> Iterator[NodeProto]:
        prefix = f"{self._name}.{ids}"
        zero, count, wide, below, more, place = (
            self._names.free(f"{prefix}.{name}") for name in ("zero", "count", "wide", "below", "more", "place")
        )
        self._places[ids] = place
        yield self._plain("Constant", [], zero, value_int=0)
        yield self._plain("Constant", [], count, value_int=self._packed.num_embeddings)
        yield self._plain("Cast", [ids], wide, to=TensorProto.INT64)
        yield self._plain("Less", [wide, zero], below)
        yield self._plain("Where", [below, count, zero], more)
        yield self._plain("Add", [wide, more], place)

    def _logits(self, product: NodeProto) -> Iterator[NodeProto]:
        hidden, bias, result = product.input[0], [*product.input[2:]], product.output[0]
        if self._rotation is not None:
            given, hidden = hidden, self._names.free(f"{result}.turned")
            yield from self._rotated(given, self._table.dtype, hidden, is_head=True)
        if product.op_type != "Gemm" or not any(bias):
            yield self._node("logits", [hidden], result, product.name)
            return
        plain = self._names.free(f"{result}.product")
        yield self._node("logits", [hidden], plain, product.name)
        yield self._plain("Add", [plain, *bias], result)

    def _node(self, use: Use, leading: Sequence[str], result: str, name: str) -> NodeProto:
        op_type = self._method.operator(use).op_type
        inputs = [*leading, *self._inputs]
        return helper.make_node(op_type, inputs, [result], name or None, domain=DOMAIN, **self._attributes)

    def _plain(self, op_type: str, inputs: Sequence[str], result: str, **attributes: Any) -> NodeProto:
        return helper.make_node(op_type, inputs, [result], self._names.free(f"{result}.{op_type}"), **attributes)


def _put_in(model: ModelProto, made: Mapping[int, list[NodeProto]]) -> None:
    nodes = [new for place, node in enumerate(model.graph.node) for new in made.get(place, [node])]
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del model.graph.node[:]
    model.graph.node.extend(kept)


def _drop(graph: GraphProto, gone: Container[str]) -> None:
    """Remove constants, and what is said of values that are gone."""
    for place in reversed(range(len(graph.initializer))):
        if graph.initializer[place].name in gone:
            del graph.initializer[place]
    for place in reversed(range(len(graph.value_info))):
        if graph.value_info[place].name in gone:
            del graph.value_info[place]
    for place in reversed(range(len(graph.quantization_annotation))):
        if graph.quantization_annotation[place].tensor_name in gone:
            del graph.quantization_annotation[place]


def _add_tensors(model: ModelProto, tables: Mapping[str, Stored]) -> None:
    for name, stored in tables.items():
        for key, array in stored.arrays().items():
            model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), f"{name}.{key}"))


def _add_bodies(model: ModelProto, opset: int) -> None:
    """Add the functions that are not there: a file with tables of ours has some."""
    there = {function.name: function for function in model.functions if function.domain == DOMAIN}
    for operator, count in needed_bodies(_nodes_of_ours(model)):
        if operator.op_type in there:
            check_count(operator, count, len(there[operator.op_type].input) - operator.num_leading)
        else:
            model.functions.append(operator.function(count, opset=opset))
    model.ir_version = max(model.ir_version, _LEAST_IR)
    version = next((int(item.version) for item in model.opset_import if item.domain == DOMAIN), None)
    if version is None:
        model.opset_import.append(helper.make_opsetid(DOMAIN, DOMAIN_VERSION))
    elif version != DOMAIN_VERSION:
        raise BadInputError(
            f"got operators of {DOMAIN} {version}, expected {DOMAIN_VERSION}: use the release they are of"
        )


def _nodes_of_ours(model: ModelProto) -> Iterator[Body]:
    for node in model.graph.node:
        if node.domain == DOMAIN:
            operator = _operator(node)
            yield operator, len(node.input) - operator.num_leading


def _operator(node: NodeProto) -> OnnxOperator:
    if node.op_type not in OPERATORS:
        raise BadInputError(f"{DOMAIN}::{node.op_type}: is no operator of this release: use that of the file")
    return OPERATORS[node.op_type]


def metadata_of(model: ModelProto, key: str) -> str | None:
    """A text of a model, None if it has none of that key."""
    return next((item.value for item in model.metadata_props if item.key == key), None)


def set_metadata(model: ModelProto, key: str, text: str) -> None:
    """Change a text of a model, or add it."""
    for item in model.metadata_props:
        if item.key == key:
            item.value = text
            return
    model.metadata_props.add(key=key, value=text)
