"""Subgraphs of other TFLite files in ours: taken over with their weights, connected to operators that were added."""

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

import numpy as np

from edge_embed.exporters.tflite.flatbuffer import ModelBuilder, type_names
from edge_embed.exporters.tflite.graph import Tensor


def take_over(builder: ModelBuilder, model: Any) -> list[Any]:
    """The subgraphs of a model (of the schema's classes), changed to refer to our buffers and kinds of operators.

    Buffers that no tensor refers to are left behind.
    """
    codes = [
        builder.add_code(max(code.builtinCode, code.deprecatedBuiltinCode), code.version, code.customCode)
        for code in model.operatorCodes
    ]
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            content = model.buffers[tensor.buffer].data
            tensor.buffer = 0 if content is None else builder.add_buffer(np.asarray(content, np.uint8))
        for operator in graph.operators:
            operator.opcodeIndex = codes[operator.opcodeIndex]
    return list(model.subgraphs)


def tensor_at(graph: Any, number: int) -> Tensor:
    """A tensor of a subgraph, as operators that are added take it."""
    tensor = graph.tensors[number]
    sizes = tensor.shape if tensor.shapeSignature is None else tensor.shapeSignature
    return Tensor(int(number), tensor.name.decode(), type_names()[tensor.type], tuple(map(int, sizes)))


def connect(graph: Any, replaced: Mapping[int, int]) -> None:
    """Let the operators of a subgraph read other tensors in place of some, and put each behind those it reads from."""
    producers: dict[int, int] = {}
    for number, operator in enumerate(graph.operators):
        operator.inputs = [replaced.get(int(tensor), int(tensor)) for tensor in operator.inputs]
        producers.update(dict.fromkeys(map(int, operator.outputs), number))
    order = TopologicalSorter(
        {
            number: [producers[tensor] for tensor in operator.inputs if tensor in producers]
            for number, operator in enumerate(graph.operators)
        }
    )
    graph.operators = [graph.operators[number] for number in order.static_order()]


def in_order(entries: Sequence[Any]) -> list[int]:
    """Numbers of the tensors ``args_0``, ``args_1``, ... of a signature."""
    by_position = {int(entry.name.decode().rpartition("_")[2]): int(entry.tensorIndex) for entry in entries}
    return [by_position[position] for position in sorted(by_position)]
