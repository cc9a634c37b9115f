"""The dense tables of an ONNX file: constants [n, d] of which rows are gathered, and what else is done with them.

    rows     Gather (table, ids) along axis 0
    logits   MatMul (hidden, Transpose (table)) or Gemm (hidden, table, bias) with transB: a tied head; in place of the
             Transpose there may be a constant [d, n] with the same bits, which optimisers make of it

A table with any other use has to stay: it would be kept beside its packed form. So has one inside a branch, a loop or
a function, and one whose ids are known before: a session would compute its rows when it is made, and keep them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper

from edge_embed.compression.found import FoundTable
from edge_embed.exporters.onnx.foreign.constants import constant_values
from edge_embed.exporters.onnx.foreign.read import FLOATS, ForeignModel
from edge_embed.exporters.onnx.model_file import dtype_name
from edge_embed.exporters.onnx.names import DOMAIN

_TYPES = ("float32", "float16")
_KNOWN_TYPES = (*FLOATS, "int8", "uint8")  # of constants that may be tables; others are counts and shapes
_BLOCK_NUMBERS = 1 << 22

_Kind = Literal["rows", "logits", "same", "turned", "other"]


@dataclass(frozen=True, eq=False)
class OnnxTable(FoundTable):
    """One dense table of a file.

    Attributes:
        constant: its name in the file.
        twins: constants [d, n] with the same bits.
        dtype: ``float32`` or ``float16``, if it need not stay.
        lookups: places of the nodes that gather its rows, in the graph.
        heads: places of those that multiply with it.
        helpers: places of those that hold it, turn it round or rename it.
    """

    constant: str = ""
    twins: tuple[str, ...] = ()
    dtype: str = ""
    lookups: tuple[int, ...] = ()
    heads: tuple[int, ...] = ()
    helpers: tuple[int, ...] = ()


@dataclass
class _Uses:
    """What the graph does with one constant."""

    lookups: list[int] = field(default_factory=list)
    heads: list[int] = field(default_factory=list)
    helpers: list[int] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    looks_up: bool = False


def dense_tables(file: ForeignModel) -> list[OnnxTable]:
    """All tables of a file, in its order, their weights not read yet: `weight_of` does."""
    graph = file.model.graph
    constants = dict(_matrices(graph.initializer, graph.node))
    twins = _twins(file, constants)
    uses = _Walk(graph, constants, twins).uses
    labels = _labels(name for name, found in uses.items() if found.looks_up)
    inputs = {value.name for value in graph.input}
    found = []
    for name, label in labels.items():
        turned = tuple(twin for twin, root in twins.items() if root == name)
        reason = _obstacle(constants[name], uses[name], inputs & {name, *turned})
        found.append(_table(label, name, constants[name], uses[name], turned, reason))
    return found + [_inner_table(*inner, labels.values()) for inner in _inner_tables(file.model)]


def weight_of(file: ForeignModel, table: OnnxTable) -> torch.Tensor:
    """The numbers of a table [n, d]."""
    graph = file.model.graph
    array = file.array(dict(_matrices(graph.initializer, graph.node))[table.constant])
    return torch.from_numpy(array if array.flags.writeable else array.copy())


def _table(label: str, name: str, tensor: TensorProto, uses: _Uses, twins: tuple[str, ...], reason: str) -> OnnxTable:
    places = tuple(uses.lookups), tuple(uses.heads), tuple(uses.helpers)
    count = max(1, len(uses.lookups) + len(uses.heads))
    return OnnxTable(
        label, _unread(tensor), None, count, True, reason, "beside", name, twins, dtype_name(tensor.data_type), *places
    )


def _unread(tensor: TensorProto) -> torch.Tensor:
    """A tensor of the same size that takes no memory."""
    return torch.zeros(1).expand(*map(int, tensor.dims))


def _labels(names: Iterable[str]) -> dict[str, str]:
    """What tables are called: as the layer whose ``weight`` they are, where no other one is called so."""
    names = list(names)
    short = {name: name.removesuffix(".weight") or name for name in names}
    return {name: name if label in names else label for name, label in short.items()}


def _obstacle(tensor: TensorProto, uses: _Uses, inputs: Iterable[str]) -> str:
    """Why no packed table can do what this one does; empty if one can."""
    dtype = dtype_name(tensor.data_type)
    if dtype not in _TYPES:
        return f"its numbers are {dtype}, expected {' or '.join(_TYPES)}"
    for name in sorted(inputs):
        return f"{name} is an input of the model too, for which a caller may give another: remove it from the inputs"
    return uses.others[0] if uses.others else ""


class _Walk:
    """One pass over the nodes of a graph, in their order, that notes what they do with constants."""

    def __init__(self, graph: GraphProto, constants: Mapping[str, TensorProto], twins: Mapping[str, str]) -> None:
        self.uses = {name: _Uses() for name in constants if name not in twins}
        self._views = {name: (name, False) for name in self.uses} | {twin: (twins[twin], True) for twin in twins}
        self._outputs = {value.name for value in graph.output}
        self._constants = constant_values(graph)
        self._read: set[str] = set()  # by the nodes so far
        for name in [*self._views]:
            self._note_output(name)
        for place, node in enumerate(graph.node):
            if node.op_type == "Constant" and node.output[0] in self._views:
                self.uses[self._views[node.output[0]][0]].helpers.append(place)
            for position, name in enumerate(node.input):
                if name in self._views:
                    self._note(place, node, position, name)
            self._read.update(node.input)
            for inner in _graphs_of(node):
                self._note_inner(node, inner)

    def _note(self, place: int, node: NodeProto, position: int, name: str) -> None:
        root, is_turned = self._views[name]
        uses, kind = self.uses[root], _kind(node, position, is_turned)
        if kind == "rows":
            uses.lookups.append(place)
            uses.looks_up = True
            if node.input[1] in self._constants:
                uses.others.append(f"the ids of {_spelled(node)} are constants, and so are its rows: fold them first")
        elif kind == "logits":
            uses.heads.append(place)
        elif kind == "other":
            uses.others.append(f"{_spelled(node)} takes it too")
        else:
            uses.helpers.append(place)
            self._views[node.output[0]] = root, is_turned ^ (kind == "turned")
            self._note_output(node.output[0])
            if node.output[0] in self._read:
                uses.others.append(f"a node before {_spelled(node)} takes what it gives: sort the graph")

    def _note_output(self, name: str) -> None:
        if name in self._outputs:
            self.uses[self._views[name][0]].others.append("it is an output of the model")

    def _note_inner(self, node: NodeProto, graph: GraphProto) -> None:
        """A branch or loop may take what is around it: by the same name."""
        for inner in graph.node:
            self._read.update(inner.input)
            for name in set(inner.input) & self._views.keys():
                uses = self.uses[self._views[name][0]]
                uses.others.append(f"a graph inside {_spelled(node)} takes it too")
                uses.looks_up |= _gathers(inner) and inner.input[0] == name
            for deeper in _graphs_of(inner):
                self._note_inner(node, deeper)
        for value in graph.output:
            if value.name in self._views:
                self.uses[self._views[value.name][0]].others.append(f"a graph inside {_spelled(node)} gives it")


def _kind(node: NodeProto, position: int, is_turned: bool) -> _Kind:
    """What a node does with a constant [n, d], or with what turned it round, at one of its inputs."""
    if node.domain not in ("", "ai.onnx"):
        return "other"
    values = _values(node)
    if node.op_type == "Gather" and position == 0 and not is_turned and values.get("axis", 0) in (0, -2):
        return "rows"
    if node.op_type == "MatMul" and position == 1 and is_turned:
        return "logits"
    if node.op_type == "Gemm" and position == 1 and is_turned != bool(values.get("transB", 0)) and _is_plain(node):
        return "logits"
    if node.op_type == "Identity":
        return "same"
    if node.op_type == "Transpose" and list(values.get("perm", [1, 0])) == [1, 0]:
        return "turned"
    return "other"


def _is_plain(gemm: NodeProto) -> bool:
    """Whether a Gemm multiplies and adds, nothing more."""
    values = _values(gemm)
    factors = [values.get("alpha", 1)] + ([values.get("beta", 1)] if any(gemm.input[2:]) else [])
    return not values.get("transA", 0) and all(factor == 1 for factor in factors)


def _values(node: NodeProto) -> dict[str, Any]:
    return {item.name: helper.get_attribute_value(item) for item in node.attribute}


def _gathers(node: NodeProto) -> bool:
    return len(node.input) == 2 and _kind(node, 0, is_turned=False) == "rows"


def _spelled(node: NodeProto) -> str:
    return f"{node.op_type} {node.name!r:.100}" if node.name else node.op_type


def _graphs_of(node: NodeProto) -> Iterator[GraphProto]:
    for item in node.attribute:
        if item.type == AttributeProto.GRAPH:
            yield item.g
        yield from item.graphs


def _matrices(initializers: Iterable[TensorProto], nodes: Iterable[NodeProto]) -> Iterator[tuple[str, TensorProto]]:
    """Constants of two dimensions, by name; those without numbers are no tables."""
    constants = [(tensor.name, tensor) for tensor in initializers]
    constants += [
        (node.output[0], item.t)
        for node in nodes
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx")
        for item in node.attribute
        if item.name == "value"
    ]
    for name, tensor in constants:
        if len(tensor.dims) == 2 and 0 not in tensor.dims and dtype_name(tensor.data_type) in _KNOWN_TYPES:
            yield name, tensor


def _twins(file: ForeignModel, constants: Mapping[str, TensorProto]) -> dict[str, str]:
    """The constants [d, n] that a graph multiplies with and that are a table turned round: by name, the table."""
    nodes = file.model.graph.node
    tables = [name for name in dict.fromkeys(node.input[0] for node in nodes if _gathers(node)) if name in constants]
    factors = {node.input[1] for node in nodes if node.op_type in ("MatMul", "Gemm") and len(node.input) > 1}
    twins = {}
    for name in sorted(factors & constants.keys() - set(tables)):
        for table in tables:
            if _is_turned(file, constants[name], constants[table]):
                twins[name] = table
                break
    return twins


def _is_turned(file: ForeignModel, turned: TensorProto, table: TensorProto) -> bool:
    n, dim = table.dims
    if (turned.data_type, *turned.dims) != (table.data_type, dim, n):
        return False
    one, other = file.array(turned), file.array(table)
    rows = max(1, _BLOCK_NUMBERS // dim)
    return all(
        np.array_equal(np.ascontiguousarray(one[:, at : at + rows].T).view(np.uint8),
                       np.ascontiguousarray(other[at : at + rows]).view(np.uint8))
        for at in range(0, n, rows)
    )  # fmt: skip


def _inner_tables(model: ModelProto) -> Iterator[tuple[str, TensorProto, str]]:
    """The tables inside branches, loops and functions: name, tensor and where."""
    for node in model.graph.node:
        yield from _tables_inside(node)
    for function in model.functions:
        if function.domain != DOMAIN:
            where = f"the function {function.name:.100}"
            yield from ((*found, where) for found in _gathered((), function.node))
            for node in function.node:
                yield from _tables_inside(node)


def _tables_inside(node: NodeProto) -> Iterator[tuple[str, TensorProto, str]]:
    for graph in _graphs_of(node):
        yield from ((*found, _spelled(node)) for found in _gathered(graph.initializer, graph.node))
        for inner in graph.node:
            yield from _tables_inside(inner)


def _gathered(initializers: Iterable[TensorProto], nodes: Iterable[NodeProto]) -> Iterator[tuple[str, TensorProto]]:
    nodes = list(nodes)
    names = {node.input[0] for node in nodes if _gathers(node)}
    return (found for found in _matrices(initializers, nodes) if found[0] in names)


def _inner_table(name: str, tensor: TensorProto, where: str, others: Iterable[str]) -> OnnxTable:
    label = name if name not in others else f"{where}: {name}"
    return OnnxTable(
        label, _unread(tensor), None, 1, True, f"it is inside {where}, which stays as it is", constant=name
    )
