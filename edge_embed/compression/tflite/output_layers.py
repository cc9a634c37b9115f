"""Output layers of TFLite files without a lookup: constants that hidden states are multiplied with, at the end.

A layer inside a model has the same operators. An output layer differs in two ways: no later operator multiplies with a
constant, and it has more rows than columns.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from edge_embed.compression.tflite.constant_origins import Origin, Origins
from edge_embed.compression.tflite.dequantize import held_bytes, kind_of
from edge_embed.compression.tflite.subgraph_calls import numbers, operator_name

_SHARE = 20  # layers with less than a twentieth of the file are not reported
_PRODUCTS = ("FULLY_CONNECTED", "BATCH_MATMUL")


@dataclass(frozen=True)
class OutputLayer:
    """An output layer of a file.

    Attributes:
        name: name of its constant.
        shape: rows n, one for each result, and columns d.
        kind: type of its numbers, such as ``int8``.
        held_bytes: its bytes in the file, including scales.
        operator: name of the operator that multiplies with it.
    """

    name: str
    shape: tuple[int, int]
    kind: str
    held_bytes: int
    operator: str


def output_layers(model: Any, origins: Origins, tables: Collection[int]) -> Iterator[OutputLayer]:
    """Yield the output layers of a model, of the schema's classes.

    Args:
        model: the model, with all contents in its buffers.
        origins: its constants.
        tables: numbers of the buffers with row lookups.
    """
    total, seen = sum(len(buffer.data) for buffer in model.buffers if buffer.data is not None), {*tables}
    for number, graph in enumerate(model.subgraphs):
        products = [
            (operator, origin)
            for operator in graph.operators
            if (origin := _constant(model, origins, number, operator)) is not None
        ]
        for operator, origin in products:
            buffer = origins.tensor(origin).buffer
            others = [other for other, _ in products if other is not operator]
            layer = None if buffer in seen else _layer(model, origins, operator, origin)
            if layer is None or layer.held_bytes * _SHARE < total or _leads_to(graph, operator, others):
                continue
            seen.add(buffer)
            yield layer


def _constant(model: Any, origins: Origins, number: int, operator: Any) -> Origin | None:
    """Return the constant that an operator multiplies hidden states with, or None."""
    inputs = numbers(operator.inputs)
    if operator_name(model, operator) not in _PRODUCTS or len(inputs) < 2 or origins.of(number, inputs[0]) is not None:
        return None
    return origins.of(number, inputs[1])


def _layer(model: Any, origins: Origins, operator: Any, origin: Origin) -> OutputLayer | None:
    tensor, name = origins.tensor(origin), operator_name(model, operator)
    sizes = numbers(tensor.shape)
    if len(sizes) < 2 or set(sizes[:-2]) - {1}:
        return None
    is_transposed = name == "BATCH_MATMUL" and not operator.builtinOptions.adjY
    rows, columns = sizes[:-3:-1] if is_transposed else sizes[-2:]
    if rows <= columns:
        return None
    nbytes = held_bytes(model, model.subgraphs[origin.graph], tensor)
    return OutputLayer((tensor.name or b"").decode() or "constant", (rows, columns), kind_of(tensor), nbytes, name)


def _leads_to(graph: Any, operator: Any, others: list[Any]) -> bool:
    """Return whether the inputs of one of the others are computed from the results of an operator."""
    reached = {*numbers(operator.outputs)}
    while True:
        taking = [each for each in graph.operators if not reached.isdisjoint(numbers(each.inputs))]
        if any(each is other for each in taking for other in others):
            return True
        made = {number for each in taking for number in numbers(each.outputs)}
        if made <= reached:
            return False
        reached |= made
