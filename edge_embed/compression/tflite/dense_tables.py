"""Constants of a TFLite file whose rows are looked up, and reasons why some of them must stay dense."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.compression.tflite.constant_origins import Origin, Origins, has_content
from edge_embed.compression.tflite.dequantize import check_size, held_bytes, kind_of, numbers_of, why_no_rows
from edge_embed.compression.tflite.lookups import Lookup, find_lookup
from edge_embed.compression.tflite.subgraph_calls import call_of, numbers, operator_name
from edge_embed.compression.tflite.tied_output_layers import TiedOutputLayer, find_tied_output_layer

_NO_NUMBERS = ("bool", "int32", "int64", "resource", "string", "uint32", "uint64", "variant")
_LISTED = 3  # constants that a message names


@dataclass(frozen=True, eq=False)
class ForeignTable:
    """A constant with row lookups.

    Attributes:
        name: name of the first tensor with this content.
        origin: the place where it is declared.
        buffer: number of its content.
        lookups: the operators that look it up, with the numbers of their subgraphs.
        output_layers: the output layers that share it, with the numbers of their subgraphs.
        readers: other operators that use it, by their names in the schema.
        kind: type of its numbers, such as ``int8``.
        held_bytes: its bytes in the file, including scales.
    """

    name: str
    origin: Origin
    buffer: int
    lookups: Sequence[tuple[int, Lookup]]
    output_layers: Sequence[tuple[int, TiedOutputLayer]]
    readers: Sequence[str]
    kind: str
    held_bytes: int
    _model: Any
    _unread: str

    @property
    def unread(self) -> str:
        """Return the reason why its rows are not read, or an empty string."""
        if self._unread:
            return self._unread
        if len({lookup.row_axes for _, lookup in self.lookups}) > 1:
            axes = " and ".join(sorted({str(list(lookup.row_axes)) for _, lookup in self.lookups}))
            return f"its lookups select along axes {axes}, expected the same axes: store a copy for each"
        return next((lookup.reason for _, lookup in self.lookups if lookup.reason), "")

    @property
    def looked_up_by(self) -> str:
        """Return the operators that look it up."""
        return ", ".join(dict.fromkeys(lookup.name for _, lookup in self.lookups))

    @property
    def shape(self) -> tuple[int, int]:
        """Return rows n and columns d."""
        sizes, axes = numbers(self._tensor.shape), self.lookups[0][1].row_axes
        rows = math.prod(sizes[axis] for axis in axes)
        return rows, math.prod(sizes) // max(1, rows)

    @cached_property
    def rows(self) -> NDArray[np.float32]:
        """Return its rows as the file dequantises them, float32 [n, d].

        Raises:
            ValueError: its content does not have the size of its shape.
        """
        stored = numbers_of(self._model, self._model.subgraphs[self.origin.graph], self._tensor)
        return self.lookups[0][1].rows(stored)

    def __str__(self) -> str:
        return f"{self.name} ({self.kind} {numbers(self._tensor.shape)}, {self.held_bytes:,} bytes)"

    @property
    def _tensor(self) -> Any:
        return self._model.subgraphs[self.origin.graph].tensors[self.origin.number]


def find_tables(model: Any, origins: Origins) -> dict[str, ForeignTable]:
    """Return the tables of a model (of the schema's classes), by name."""
    found: dict[int, list[tuple[int, Lookup]]] = {}
    for number, graph in enumerate(model.subgraphs):
        for operator in graph.operators:
            lookup = find_lookup(model, origins, number, operator)
            if lookup is not None and kind_of(origins.tensor(lookup.origin)) not in _NO_NUMBERS:
                found.setdefault(origins.tensor(lookup.origin).buffer, []).append((number, lookup))
    output_layers = _output_layers(model, origins, found)
    uses: list[Lookup | TiedOutputLayer] = [lookup for some in found.values() for _, lookup in some]
    uses += [layer for some in output_layers.values() for _, layer in some]
    readers = _other_readers(model, origins, {id(each.operator): each for each in uses})
    names = _names(model, found)
    return {
        names[buffer]: _table(
            model, origins, names[buffer], buffer, lookups, output_layers.get(buffer, ()), readers.get(buffer, ())
        )
        for buffer, lookups in found.items()
    }


def _output_layers(
    model: Any, origins: Origins, tables: Mapping[int, Sequence[tuple[int, Lookup]]]
) -> dict[int, list[tuple[int, TiedOutputLayer]]]:
    """Return the output layers that share looked-up rows, by the numbers of the tables' buffers."""
    found: dict[int, list[tuple[int, TiedOutputLayer]]] = {}
    looking_up = {id(lookup.operator) for lookups in tables.values() for _, lookup in lookups}
    for number, graph in enumerate(model.subgraphs):
        for operator in graph.operators:
            layer = None if id(operator) in looking_up else find_tied_output_layer(model, origins, number, operator)
            buffer = None if layer is None else origins.tensor(layer.origin).buffer
            if layer is None or buffer is None or buffer not in tables:
                continue
            lookup = tables[buffer][0][1]
            if lookup.row_axes == (layer.row_axis,) and origins.is_same(lookup.origin, layer.origin):
                found.setdefault(buffer, []).append((number, layer))
    return found


def largest_constants(model: Any) -> str:
    """Return the largest constants of two axes or more, and the operators that use them, for a message."""
    found: dict[int, str] = {}
    for graph in model.subgraphs:
        for number, tensor in enumerate(graph.tensors):
            if tensor.buffer not in found and has_content(model, tensor) and len(numbers(tensor.shape)) > 1:
                takers = (operator_name(model, each) for each in graph.operators if number in numbers(each.inputs))
                size = len(model.buffers[tensor.buffer].data)
                shown = f"{(tensor.name or b'').decode()} ({kind_of(tensor)} {numbers(tensor.shape)}, {size:,} bytes)"
                found[tensor.buffer] = f"{shown}, used by {', '.join(dict.fromkeys(takers)) or 'no operator'}"
    by_size = sorted(found, key=lambda buffer: -len(model.buffers[buffer].data))
    return "; ".join(found[buffer] for buffer in by_size[:_LISTED])


def _table(
    model: Any,
    origins: Origins,
    name: str,
    buffer: int,
    lookups: Sequence[tuple[int, Lookup]],
    output_layers: Sequence[tuple[int, TiedOutputLayer]],
    readers: Sequence[str],
) -> ForeignTable:
    origin = lookups[0][1].origin
    tensor = origins.tensor(origin)
    check_size(model, tensor)
    unread = why_no_rows(tensor)
    if not all(origins.is_same(origin, lookup.origin) for _, lookup in lookups):
        unread = "its bytes have several shapes or scales, expected one: store a copy for each"
    held = held_bytes(model, model.subgraphs[origin.graph], tensor)
    return ForeignTable(name, origin, buffer, lookups, output_layers, readers, kind_of(tensor), held, model, unread)


def _names(model: Any, buffers: Mapping[int, Any]) -> dict[int, str]:
    """Return a name for each: that of the first tensor with the content, and a number if other contents share it."""
    names: dict[int, str] = {}
    constants: dict[str, set[int]] = {}
    for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
        if has_content(model, tensor):
            name = (tensor.name or b"").decode() or "constant"
            names.setdefault(tensor.buffer, name)
            constants.setdefault(name, set()).add(tensor.buffer)
    return {
        buffer: names[buffer] if len(constants[names[buffer]]) == 1 else f"{names[buffer]}#{buffer}"
        for buffer in buffers
    }


def _other_readers(model: Any, origins: Origins, uses: Mapping[int, Lookup | TiedOutputLayer]) -> dict[int, list[str]]:
    """Return the other users of constants, by the numbers of their buffers."""
    found: dict[int, list[str]] = {}
    for number, graph in enumerate(model.subgraphs):
        taken = [(tensor, name) for operator in graph.operators
                 for tensor, name in _taken(model, origins, number, operator, uses)]  # fmt: skip
        taken += [(tensor, "the output") for tensor in numbers(graph.outputs) if tensor not in origins.kept(number)]
        for tensor, name in taken:
            origin = None if tensor < 0 else origins.of(number, tensor)
            if origin is not None:
                names = found.setdefault(origins.tensor(origin).buffer, [])
                if name not in names:
                    names.append(name)
    return found


def _taken(
    model: Any, origins: Origins, number: int, operator: Any, uses: Mapping[int, Lookup | TiedOutputLayer]
) -> Iterator[tuple[int, str]]:
    """Yield the tensors that an operator uses except as lookup or output layer, and its name."""
    name, call = operator_name(model, operator), call_of(model, number, operator)
    if name == "DEQUANTIZE" and origins.of(number, numbers(operator.outputs)[0]) is not None:
        return
    use = uses.get(id(operator))
    for tensor in numbers(operator.inputs):
        is_table = use is not None and tensor >= 0 and origins.of(number, tensor) == use.origin
        if not is_table and not (call and tensor in call.arguments and _is_passed(model, origins, call, tensor)):
            yield tensor, name


def _is_passed(model: Any, origins: Origins, call: Any, tensor: int) -> bool:
    """Return whether an argument is the same constant in all called subgraphs, so that its readers are found there."""
    origin = origins.of(call.graph, tensor)
    if origin is None:
        return True
    for at in (at for at, argument in enumerate(call.arguments) if argument == tensor):
        given = [origins.of(called, numbers(model.subgraphs[called].inputs)[at]) for called in call.called]
        if not all(each is not None and origins.is_same(each, origin) for each in given):
            return False
    return True
