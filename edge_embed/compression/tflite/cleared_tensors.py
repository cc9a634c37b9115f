"""Emptying of tensors of dense tables that nothing reads, so that their content does not stay in the file.

They keep their numbers, which other tensors' numbers depend on. An argument of a call becomes a single zero.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from edge_embed.compression.tflite.dense_tables import ForeignTable
from edge_embed.compression.tflite.dequantize import parts_of_blocks
from edge_embed.compression.tflite.foreign_file import ForeignFile
from edge_embed.compression.tflite.subgraph_calls import call_of, numbers, operator_name
from edge_embed.exporters.tflite.flatbuffer import load_schema


class DenseTensors:
    """The tensors of some tables of a file."""

    def __init__(self, file: ForeignFile, tables: Sequence[ForeignTable]) -> None:
        self._model, self._origins = file.model, file.origins
        self._buffers = {table.buffer for table in tables}
        self._numbers = [self._of(number, graph) for number, graph in enumerate(file.model.subgraphs)]
        self._by_graph = {id(graph): found for graph, found in zip(file.model.subgraphs, self._numbers, strict=True)}

    def run(self) -> None:
        """Empty the tensors."""
        zero = self._add_zero()
        scales = [part for graph, found in zip(self._model.subgraphs, self._numbers, strict=True)
                  for number in found for part in parts_of_blocks(graph, graph.tensors[number])]  # fmt: skip
        for number, (graph, found) in enumerate(zip(self._model.subgraphs, self._numbers, strict=True)):
            passed = self._passed(number, graph)
            made = {tensor for call in self._calls(number, graph) for tensor in numbers(call.operator.outputs)}
            for at in found:
                self._empty(graph.tensors[at], zero, at in passed, at in {*made, *numbers(graph.inputs)})
        for tensor in scales:
            tensor.buffer, tensor.shape, tensor.shapeSignature = 0, [0], None

    def makes_none(self, graph: Any, operator: Any) -> bool:
        """Return whether an operator only computes one of them: ``DEQUANTIZE`` of a table."""
        outputs = set(numbers(operator.outputs))
        return operator_name(self._model, operator) == "DEQUANTIZE" and outputs <= self._by_graph[id(graph)]

    def _of(self, number: int, graph: Any) -> set[int]:
        found = set()
        for at in range(len(graph.tensors)):
            origin = self._origins.of(number, at)
            if origin is not None and self._origins.tensor(origin).buffer in self._buffers:
                found.add(at)
        return found

    def _calls(self, number: int, graph: Any) -> list[Any]:
        return [call for operator in graph.operators if (call := call_of(self._model, number, operator))]

    def _passed(self, number: int, graph: Any) -> set[int]:
        """Return the tensors that are arguments of calls, or inputs or outputs of the subgraph."""
        arguments = {tensor for call in self._calls(number, graph) for tensor in call.arguments}
        return arguments | set(numbers(graph.inputs)) | set(numbers(graph.outputs))

    def _empty(self, tensor: Any, zero: int, is_passed: bool, is_given: bool) -> None:
        tensor.buffer, tensor.shape, tensor.shapeSignature, tensor.quantization = 0, [0], None, None
        if is_passed or is_given:
            tensor.type, tensor.shape = load_schema().TensorType.FLOAT32, [1]
            tensor.buffer = 0 if is_given else zero

    def _add_zero(self) -> int:
        buffer = load_schema().BufferT()
        buffer.data = np.zeros(4, np.uint8)
        self._model.buffers.append(buffer)
        return len(self._model.buffers) - 1
