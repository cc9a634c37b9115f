"""A program of tables only in TFLite: rows and bags, and the few torch operators around them.

It needs no converter, and its sizes stay dynamic.
"""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import fx

from edge_embed.errors import BadInputError
from edge_embed.exporters.tflite.flatbuffer import ModelBuilder
from edge_embed.exporters.tflite.graph import ONLY_SIGNATURE, Graph, Tensor
from edge_embed.exporters.tflite.table_uses import Layout, add_use
from edge_embed.exporters.tflite.translated import Translated
from edge_embed.lowering.graph import CALLS, LoweredProgram, table_of
from edge_embed.program.program import Program, dtype_name

_FLAT = [-1]


class UnsupportedError(BadInputError):
    """The program has an operator that a graph of tables only does not support; the message names it."""


def translate(lowered: LoweredProgram, layouts: Mapping[str, Layout]) -> Translated:
    """Translate a program of tables only, with its dynamic dimensions.

    Raises:
        UnsupportedError: the program has other operators.
    """
    return _Translation(lowered, layouts).run()


class _Translation:
    def __init__(self, lowered: LoweredProgram, layouts: Mapping[str, Layout]) -> None:
        self._lowered, self._layouts, self._builder = lowered, layouts, ModelBuilder()
        self._graph = Graph(self._builder)
        self._values: dict[fx.Node, Tensor] = {}
        self._delegate: list[str | None] = []
        self._inputs = iter(lowered.program.inputs)

    def run(self) -> Translated:
        """Translate all nodes in order."""
        for node in self._lowered.program.module.graph.nodes:
            if node.op == "placeholder":
                self._values[node] = self._input()
            elif node.op == "call_function":
                self._values[node] = self._call(node)
            elif node.op == "output":
                found = [self._values.get(result) for result in node.args[0]]
        outputs = _named_outputs(self._lowered.program, found)
        self._graph.end(ONLY_SIGNATURE, self._graph.inputs, outputs)
        shapes = _shapes(self._lowered.program, outputs)
        return Translated(self._builder, self._graph.hashes, self._delegate, shapes, {})

    def _input(self) -> Tensor:
        declared = next(self._inputs)
        sizes = [-1 if isinstance(size, str) else size for size in declared.shape]
        return self._graph.input(declared.name, dtype_name(declared.dtype), sizes)

    def _call(self, node: fx.Node) -> Tensor:
        if node.target in CALLS:
            return self._use(node)
        if node.target not in _TRANSLATIONS:
            raise UnsupportedError(f"the operator {node.target}")
        arguments: Any = fx.node.map_arg(node.args, self._value)
        return _TRANSLATIONS[node.target](self._graph, *arguments, **node.kwargs)

    def _use(self, node: fx.Node) -> Tensor:
        call = CALLS[node.target]
        if call.use not in ("rows", "bag"):
            raise UnsupportedError(f"{call.use} of a table")
        name = table_of(node)
        leading: Any = fx.node.map_arg(node.args[: call.leading], self._value)
        packed, layout = self._lowered.tables[name], self._layouts[name].name
        (result,), line = add_use(self._graph, call.use, name, packed, layout, leading, self._lowered.id_check)
        self._delegate.append(line)
        return result

    def _value(self, node: fx.Node) -> Any:
        if node.op != "get_attr":
            return self._values[node]
        weight = self._lowered.program.module.weight(str(node.target))
        if weight.dtype == torch.bfloat16:
            raise UnsupportedError("a weight in bfloat16")
        return self._graph.constant(weight.numpy(force=True), dtype_name(weight.dtype))


def _shapes(program: Program, outputs: Mapping[str, Tensor]) -> dict[str, list[str]]:
    """Return the dimensions of inputs by name or size, and of outputs, whose names of dimensions are unknown."""
    shapes = {declared.name: [str(size) for size in declared.shape] for declared in program.inputs}
    for name, tensor in outputs.items():
        shapes[name] = ["derived" if size < 0 else str(size) for size in tensor.shape]
    return shapes


def _named_outputs(program: Program, found: list[Tensor | None]) -> dict[str, Tensor]:
    outputs = {name: tensor for name, tensor in zip(program.output_names, found, strict=True) if tensor is not None}
    if len(outputs) < len(found):
        raise UnsupportedError("an output that is a constant")
    return outputs


# The torch operators around a use of a table: flattened ids, bounds of bags, casts, rotations of rows.


def _to_copy(graph: Graph, tensor: Tensor, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return tensor if dtype is None else graph.cast(tensor, dtype_name(dtype))


def _view(graph: Graph, tensor: Tensor, shape: list[int]) -> Tensor:
    if shape != _FLAT:
        raise UnsupportedError(f"a view of shape {shape}")
    return graph.flatten(tensor)


def _size(graph: Graph, tensor: Tensor, axis: int) -> Tensor:
    return graph.cast(graph.gather(graph.shape(tensor), graph.constant(axis)), "int64")


def _arange(graph: Graph, stop: Tensor, **_: Any) -> Tensor:
    return graph.cast(graph.range(graph.cast(stop, "int32")), "int64")


def _new_full(graph: Graph, like: Tensor, shape: list[int], value: Any, **_: Any) -> Tensor:
    return graph.cast(graph.reshape(_tensor(graph, value, like), shape), like.dtype)


def _add(graph: Graph, left: Tensor, right: Any) -> Tensor:
    return graph.binary("ADD", left, _tensor(graph, right, left))


def _multiply(graph: Graph, left: Tensor, right: Any) -> Tensor:
    return graph.binary("MUL", left, _tensor(graph, right, left))


def _concatenate(graph: Graph, tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    rank, kinds = len(tensors[0].shape), {(len(tensor.shape), tensor.dtype) for tensor in tensors}
    if axis not in (-1, rank - 1) or len(kinds) > 1:
        raise UnsupportedError(f"a concatenation along axis {axis}, or of several types")
    return graph.concatenate(tensors)


def _matmul(graph: Graph, left: Tensor, right: Tensor) -> Tensor:
    if len(right.shape) != 2:
        raise UnsupportedError(f"a product with a tensor of rank {len(right.shape)}")
    return graph.rows_times(left, right)


def _tensor(graph: Graph, value: Any, like: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else graph.constant(value, like.dtype)


_TRANSLATIONS: Mapping[Any, Callable[..., Tensor]] = {
    operator.add: _add,
    torch.ops.aten._to_copy.default: _to_copy,
    torch.ops.aten.arange.default: _arange,
    torch.ops.aten.cat.default: _concatenate,
    torch.ops.aten.matmul.default: _matmul,
    torch.ops.aten.mul.Tensor: _multiply,
    torch.ops.aten.new_full.default: _new_full,
    torch.ops.aten.sym_size.int: _size,
    torch.ops.aten.view.default: _view,
}
