"""A lowered program as a TFLite graph: uses of tables, and the few operators of torch that layers put around them.

A converter of whole models has its place here: whatever makes the graph after the tables adds its operators where now
`translate` refuses them.
"""

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from edge_embed.errors import BadInputError
from edge_embed.exporters.tflite import bag
from edge_embed.exporters.tflite.ant import ANT
from edge_embed.exporters.tflite.dpq import DPQ
from edge_embed.exporters.tflite.graph import Graph, Tensor
from edge_embed.exporters.tflite.manifest import manifest_line
from edge_embed.exporters.tflite.method import TfliteMethod
from edge_embed.exporters.tflite.tt import TT
from edge_embed.lowering.graph import CALLS, LoweredProgram
from edge_embed.packed.form import Packed
from edge_embed.packed.manifest import located
from edge_embed.program.program import Program

METHODS: Mapping[str, TfliteMethod] = {method.name: method for method in (ANT, DPQ, TT)}
_FLAT = [-1]
_SUPPORTED = "only look-ups and bags of compressed tables are exported to TFLite, with casts of their results"


@dataclass(frozen=True)
class Layout:
    """How a table lies in the file, and the bytes that this adds to its packed form."""

    name: str
    added_bytes: int


def choose_layouts(lowered: LoweredProgram, tflite_table: str) -> dict[str, Layout]:
    """The layout of every table.

    Raises:
        BadInputError: a table cannot have the layout that is wanted.
    """
    layouts = {}
    for name, packed in lowered.tables.items():
        method = METHODS[packed.method]
        with located(f"table {name}"):
            chosen = method.choose(packed, tflite_table)
        layouts[name] = Layout(chosen, method.table_bytes(packed, chosen))
    return layouts


@dataclass(frozen=True)
class Translated:
    """A program as a graph.

    Attributes:
        graph: the graph.
        outputs: of it, by name.
        delegate: the line of each use in the manifest that the delegate reads, None where it has none.
    """

    graph: Graph
    outputs: dict[str, Tensor]
    delegate: list[str | None]


def translate(lowered: LoweredProgram, layouts: Mapping[str, Layout]) -> Translated:
    """The graph of a program.

    Raises:
        BadInputError: the program does what has no place in it; the message names the operator.
    """
    return _Translation(lowered, layouts).run()


def add_use(
    graph: Graph,
    name: str,
    packed: Packed,
    layout: str,
    ids: Tensor,
    offsets: Tensor | None = None,
    sample_weights: Tensor | None = None,
    mode: str | None = None,
) -> tuple[Tensor, str | None]:
    """Add a use of a table: rows, or bags where offsets are given.

    Returns:
        The result, and its line in the manifest of the delegate.
    """
    method = METHODS[packed.method]
    with located(f"table {name}"):
        result = method.rows(graph, name, packed, ids, layout)
    if offsets is not None and mode is not None:
        result = bag.bags(graph, result, ids, offsets, sample_weights, mode, packed.padding_idx)
    ends = {"ids": ids, "offsets": offsets, "sample_weights": sample_weights, "output": result}
    given = {end: tensor for end, tensor in ends.items() if tensor is not None}
    fields = method.fields(name, packed, layout)
    return result, manifest_line("rows" if offsets is None else "bag", packed, given, fields, mode)


class _Translation:
    def __init__(self, lowered: LoweredProgram, layouts: Mapping[str, Layout]) -> None:
        self._lowered, self._layouts, self._graph = lowered, layouts, Graph()
        self._values: dict[fx.Node, Tensor] = {}
        self._delegate: list[str | None] = []
        self._inputs = iter(lowered.program.inputs)

    def run(self) -> Translated:
        """All nodes in order."""
        for node in self._lowered.program.module.graph.nodes:
            if node.op == "placeholder":
                self._values[node] = self._input()
            elif node.op == "call_function":
                self._values[node] = self._call(node)
            elif node.op == "output":
                found = [self._values.get(result) for result in node.args[0]]
        return Translated(self._graph, _named_outputs(self._lowered.program, found), self._delegate)

    def _input(self) -> Tensor:
        declared = next(self._inputs)
        sizes = [-1 if isinstance(size, str) else size for size in declared.shape]
        return self._graph.input(declared.name, _dtype_name(declared.dtype), sizes)

    def _call(self, node: fx.Node) -> Tensor:
        if node.target in CALLS:
            return self._use(node)
        if node.target not in _TRANSLATIONS:
            raise _unsupported(f"the operator {node.target}")
        arguments: Any = fx.node.map_arg(node.args, self._value)
        return _TRANSLATIONS[node.target](self._graph, *arguments, **node.kwargs)

    def _use(self, node: fx.Node) -> Tensor:
        call = CALLS[node.target]
        if call.use not in ("rows", "bag"):
            raise _unsupported(f"{call.use} of a table")
        weights: list[fx.Node] = []
        fx.node.map_arg(node.args[call.leading :], weights.append)
        name = str(weights[0].target).rpartition(".")[0]  # its tensors are <table>.<tensor>
        leading: Any = fx.node.map_arg(node.args[: call.leading], self._value)
        result, line = add_use(self._graph, name, self._lowered.tables[name], self._layouts[name].name, *leading)
        self._delegate.append(line)
        return result

    def _value(self, node: fx.Node) -> Any:
        return self._values[node]


def _unsupported(what: str) -> BadInputError:
    return BadInputError(f"got a model with {what}: {_SUPPORTED}; use --target onnx for the rest of a model")


def _named_outputs(program: Program, found: list[Tensor | None]) -> dict[str, Tensor]:
    outputs = {name: tensor for name, tensor in zip(program.output_names, found, strict=True) if tensor is not None}
    if len(outputs) < len(found):
        raise _unsupported("an output that is a constant")
    return outputs


def _dtype_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


# The operators of torch that `edge_embed.layers` make around a use of a table: flattened ids, bounds of bags, casts.


def _to_copy(graph: Graph, tensor: Tensor, dtype: torch.dtype | None = None, **_: Any) -> Tensor:
    return tensor if dtype is None else graph.cast(tensor, _dtype_name(dtype))


def _view(graph: Graph, tensor: Tensor, shape: list[int]) -> Tensor:
    if shape != _FLAT:
        raise _unsupported(f"a view of shape {shape}")
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


def _tensor(graph: Graph, value: Any, like: Tensor) -> Tensor:
    return value if isinstance(value, Tensor) else graph.constant(value, like.dtype)


_TRANSLATIONS: Mapping[Any, Callable[..., Tensor]] = {
    operator.add: _add,
    torch.ops.aten._to_copy.default: _to_copy,
    torch.ops.aten.arange.default: _arange,
    torch.ops.aten.cat.default: Graph.concatenate,
    torch.ops.aten.mul.Tensor: _multiply,
    torch.ops.aten.new_full.default: _new_full,
    torch.ops.aten.sym_size.int: _size,
    torch.ops.aten.view.default: _view,
}
