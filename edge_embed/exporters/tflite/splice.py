"""Copies subgraphs of other TFLite files with their weights, and connects them to added operators."""

from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from typing import Any

import numpy as np

from edge_embed.exporters.tflite.flatbuffer import ModelBuilder, type_names
from edge_embed.exporters.tflite.graph import Tensor


def take_over(builder: ModelBuilder, model: Any) -> list[Any]:
    """Return the subgraphs of a model (of the schema's classes), changed to refer to our buffers and operator codes.

    Buffers without a tensor are left out.
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
    """Return a tensor of a subgraph for use by added operators."""
    tensor = graph.tensors[number]
    sizes = tensor.shape if tensor.shapeSignature is None else tensor.shapeSignature
    return Tensor(int(number), tensor.name.decode(), type_names()[tensor.type], tuple(map(int, sizes)))


def connect(graph: Any, replaced: Mapping[int, int]) -> None:
    """Replace tensors that operators of a subgraph read, and sort the operators so that each follows its inputs."""
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
    """Return the numbers of the tensors ``args_0``, ``args_1``, ... of a signature."""
    by_position = {int(entry.name.decode().rpartition("_")[2]): int(entry.tensorIndex) for entry in entries}
    return [by_position[position] for position in sorted(by_position)]
