"""The operators of exported graphs: each works in every tested runtime, with the types used here.

There is no other way to add an operator, so `OPERATORS` lists all that a file may contain. Operators that a runtime
lacks are excluded: ``GATHER`` of float16 and uint16, ``FLOOR_DIV`` of int64. So is arithmetic on int8, uint8 and int16,
which treats them as quantised numbers and crashes on others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.exporters.tflite.flatbuffer import ModelBuilder

# The name of the options of an operator, empty for some.
OPERATORS: Mapping[str, str] = {
    "ADD": "AddOptions",
    "BATCH_MATMUL": "BatchMatMulOptions",
    "BITCAST": "",
    "CAST": "CastOptions",
    "CONCATENATION": "ConcatenationOptions",
    "CUMSUM": "CumsumOptions",
    "DEQUANTIZE": "DequantizeOptions",
    "DIV": "DivOptions",
    "EQUAL": "EqualOptions",
    "FLOOR_DIV": "FloorDivOptions",
    "FLOOR_MOD": "FloorModOptions",
    "GATHER": "GatherOptions",
    "LESS": "LessOptions",
    "MAXIMUM": "MaximumMinimumOptions",
    "MINIMUM": "MaximumMinimumOptions",
    "MUL": "MulOptions",
    "NOT_EQUAL": "NotEqualOptions",
    "QUANTIZE": "QuantizeOptions",
    "RANGE": "RangeOptions",
    "RESHAPE": "ReshapeOptions",
    "SCATTER_ND": "ScatterNdOptions",
    "SELECT_V2": "SelectV2Options",
    "SHAPE": "ShapeOptions",
    "STRIDED_SLICE": "StridedSliceOptions",
    "SUB": "SubOptions",
    "SUM": "ReducerOptions",
    "TOPK_V2": "TopKV2Options",
    "TRANSPOSE": "TransposeOptions",
    # Their options were added later than the operators, and are empty.
    "UNSORTED_SEGMENT_MAX": "",
    "UNSORTED_SEGMENT_SUM": "",
}
ONLY_SIGNATURE = "serving_default"
_COMPARISONS = ("EQUAL", "LESS", "NOT_EQUAL")


@dataclass(frozen=True)
class Tensor:
    """A tensor of the graph.

    Attributes:
        index: its number in the file.
        name: its unique name there.
        dtype: numpy's name of its type.
        shape: its sizes, -1 for a size that is known at run time.
    """

    index: int
    name: str
    dtype: str
    shape: tuple[int, ...]


class Graph:
    """A subgraph to which each call adds an operator; shapes follow from the inputs.

    Args:
        builder: the model of the subgraph; by default a new one.
        subgraph: a subgraph of the schema to begin with; by default an empty one.
        prefix: prefix of the names of new tensors, which no other subgraph of the model may have.

    Attributes:
        hashes: SHA-256 of the stored tensors of tables, by name of the tensor.
        inputs: the inputs that were added, by name.
    """

    def __init__(self, builder: ModelBuilder | None = None, subgraph: Any = None, prefix: str = "") -> None:
        self.hashes: dict[str, str] = {}
        self._builder, self._prefix = builder or ModelBuilder(), prefix
        self._builder.begin(subgraph)
        self.inputs: dict[str, Tensor] = {}
        self._tables: dict[str, Tensor] = {}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], Tensor] = {}

    def input(self, name: str, dtype: str, shape: Sequence[int]) -> Tensor:
        """Add an input, with -1 for dynamic sizes."""
        self.inputs[name] = self._tensor(name, dtype, shape)
        return self.inputs[name]

    def table(self, name: str, array: NDArray[Any]) -> Tensor:
        """Add a stored tensor of a table, under its name; once for all uses of the table."""
        if name not in self._tables:
            buffer = self._builder.add_buffer(array)
            self._tables[name] = self._tensor(name, array.dtype.name, array.shape, buffer)
            self.hashes[name] = self._builder.digests[buffer]
        return self._tables[name]

    def constant(self, value: Any, dtype: str = "int32") -> Tensor:
        """Add a small constant; equal ones are shared."""
        array: NDArray[Any] = np.asarray(value, dtype)
        key = (dtype, array.shape, array.tobytes())
        if key not in self._constants:
            name, buffer = f"{self._prefix}constant_{len(self._constants)}", self._builder.add_buffer(array)
            self._constants[key] = self._tensor(name, dtype, array.shape, buffer)
        return self._constants[key]

    def gather(self, table: Tensor, indices: Tensor, axis: int = 0) -> Tensor:
        """Gather from a table [..., n, ...] by indices [*]: [..., *, ...]; indices out of range are an error."""
        shape = (*table.shape[:axis], *indices.shape, *table.shape[axis + 1 :])
        return self._add("GATHER", [table, indices], table.dtype, shape, axis=axis)

    def cast(self, tensor: Tensor, dtype: str) -> Tensor:
        """Convert numbers to another type."""
        if tensor.dtype == dtype:
            return tensor
        if (tensor.dtype, dtype) == ("float16", "float32"):
            # After a resize, tflite-runtime 2.14 loses the input of a CAST of these types, and can crash.
            return self._add("DEQUANTIZE", [tensor], dtype, tensor.shape)
        kinds = self._builder.schema.TensorType
        options = {"inDataType": getattr(kinds, tensor.dtype.upper()), "outDataType": getattr(kinds, dtype.upper())}
        return self._add("CAST", [tensor], dtype, tensor.shape, **options)

    def narrowed(self, tensor: Tensor) -> Tensor:
        """Convert int64 to int32; numbers out of range are refused like an index out of range."""
        narrow = self.cast(tensor, "int32")
        wrong = self.cast(self.binary("NOT_EQUAL", self.cast(narrow, tensor.dtype), tensor), "int32")
        return self.binary("ADD", narrow, self.gather(self.constant([0]), wrong))

    def bitcast(self, tensor: Tensor, dtype: str) -> Tensor:
        """Reinterpret bits as another type of the same size."""
        return self._add("BITCAST", [tensor], dtype, tensor.shape)

    def quantize(self, tensor: Tensor, dtype: str) -> Tensor:
        """Round to the nearest integers by the scale of the output tensor, which must be set."""
        return self._add("QUANTIZE", [tensor], dtype, tensor.shape)

    def binary(self, name: str, left: Tensor, right: Tensor, **options: int) -> Tensor:
        """Add arithmetic or a comparison by its name in the format, with broadcasting and options of its schema."""
        dtype = "bool" if name in _COMPARISONS else left.dtype
        return self._add(name, [left, right], dtype, _broadcast(left.shape, right.shape), **options)

    def products(self, left: Tensor, right: Tensor) -> Tensor:
        """Multiply [i, k] with the transpose of [j, k]."""
        return self._add("BATCH_MATMUL", [left, right], left.dtype, (left.shape[0], right.shape[0]), adjY=True)

    def batch_matmul(self, left: Tensor, right: Tensor) -> Tensor:
        """Multiply [B, i, k] with [B, k, j]."""
        return self._add("BATCH_MATMUL", [left, right], left.dtype, (*left.shape[:-1], right.shape[-1]))

    def rows_times(self, rows: Tensor, matrix: Tensor) -> Tensor:
        """Multiply each row [*, k] with a matrix [k, m]."""
        if len(rows.shape) > 1:
            return self.batch_matmul(rows, matrix)
        return self.reshape(self.batch_matmul(self.reshape(rows, (1, -1)), matrix), matrix.shape[1:])

    def reshape(self, tensor: Tensor, shape: Sequence[int]) -> Tensor:
        """Reshape to a shape with at most one -1."""
        return self._add("RESHAPE", [tensor, self.constant(shape)], tensor.dtype, shape, newShape=list(shape))

    def flatten(self, tensor: Tensor) -> Tensor:
        """Reshape to a vector."""
        return tensor if len(tensor.shape) == 1 else self.reshape(tensor, (-1,))

    def reshape_like(self, tensor: Tensor, like: Tensor, *width: int) -> Tensor:
        """Reshape to [*like, *width], where any sizes of ``like`` may be dynamic."""
        shape = (*like.shape, *width)
        if shape.count(-1) <= 1:
            return tensor if tensor.shape == shape else self.reshape(tensor, shape)
        sizes = self.concatenate([self.shape(like), self.constant(width)])
        return self._add("RESHAPE", [tensor, sizes], tensor.dtype, shape)

    def transpose(self, tensor: Tensor, order: Sequence[int]) -> Tensor:
        """Reorder the axes."""
        shape = tuple(tensor.shape[axis] for axis in order)
        return self._add("TRANSPOSE", [tensor, self.constant(order)], tensor.dtype, shape)

    def shape(self, tensor: Tensor) -> Tensor:
        """Return the sizes of a tensor, int32 [rank]."""
        kind = self._builder.schema.TensorType.INT32
        return self._add("SHAPE", [tensor], "int32", (len(tensor.shape),), outType=kind)

    def size(self, tensor: Tensor) -> Tensor:
        """Return the size of the first axis, a scalar."""
        return self.gather(self.shape(tensor), self.constant(0))

    def concatenate(self, tensors: Sequence[Tensor]) -> Tensor:
        """Concatenate tensors along the last axis."""
        *leading, _ = tensors[0].shape
        sizes = [tensor.shape[-1] for tensor in tensors]
        shape = (*leading, -1 if -1 in sizes else sum(sizes))
        return self._add("CONCATENATION", tensors, tensors[0].dtype, shape, axis=len(leading))

    def slice(self, tensor: Tensor, begin: int, end: int | None) -> Tensor:
        """Slice as ``tensor[begin:end]`` along the first axis, whose size is dynamic."""
        limits = [self.constant([begin]), self.constant([0 if end is None else end]), self.constant([1])]
        inputs, shape = [tensor, *limits], (-1, *tensor.shape[1:])
        return self._add("STRIDED_SLICE", inputs, tensor.dtype, shape, endMask=int(end is None))

    def sum(self, tensor: Tensor, axes: Sequence[int]) -> Tensor:
        """Sum over some axes, which are removed."""
        shape = tuple(size for axis, size in enumerate(tensor.shape) if axis not in axes)
        return self._add("SUM", [tensor, self.constant(axes)], tensor.dtype, shape)

    def cumsum(self, tensor: Tensor) -> Tensor:
        """Compute inclusive running sums of a vector."""
        return self._add("CUMSUM", [tensor, self.constant(0)], tensor.dtype, tensor.shape)

    def range(self, stop: Tensor) -> Tensor:
        """Return 0 ... stop - 1, int32."""
        return self._add("RANGE", [self.constant(0), stop, self.constant(1)], "int32", (-1,))

    def scatter(self, places: Tensor, updates: Tensor, size: Tensor) -> Tensor:
        """Add updates [m] at places [m] to a vector of ``size`` [1] zeros."""
        column = self.reshape(places, (-1, 1))
        return self._add("SCATTER_ND", [column, updates, size], updates.dtype, (-1,))

    def segment(self, name: str, tensor: Tensor, segments: Tensor, count: Tensor) -> Tensor:
        """Compute ``SUM`` or ``MAX`` of the rows of each of ``count`` segments; rows of segment -1 are left out."""
        inputs, shape = [tensor, segments, count], (-1, *tensor.shape[1:])
        return self._add(f"UNSORTED_SEGMENT_{name}", inputs, tensor.dtype, shape)

    def select(self, condition: Tensor, true: Tensor, false: Tensor) -> Tensor:
        """Select one or the other, with broadcasting."""
        shape = _broadcast(condition.shape, _broadcast(true.shape, false.shape))
        return self._add("SELECT_V2", [condition, true, false], true.dtype, shape)

    def topk(self, tensor: Tensor, k: int) -> tuple[Tensor, Tensor]:
        """Return the k largest of the last axis in order, equal ones by lowest place, and their places, int32."""
        shape = (*tensor.shape[:-1], k)
        inputs, made = [tensor, self.constant(k)], [(tensor.dtype, shape), ("int32", shape)]
        values, places = self._add_all("TOPK_V2", inputs, made, {})
        return values, places

    def end(self, signature: str, inputs: Mapping[str, Tensor], outputs: Mapping[str, Tensor]) -> None:
        """End the subgraph, with names for its inputs and outputs; a tensor that is two outputs is copied."""
        seen: set[int] = set()
        own = {}
        for name, tensor in outputs.items():
            own[name] = self._copied(tensor) if tensor.index in seen else tensor
            seen.add(tensor.index)
        numbers = ({name: tensor.index for name, tensor in tensors.items()} for tensors in (inputs, own))
        self._builder.end(signature, *numbers)

    def _copied(self, tensor: Tensor) -> Tensor:
        """Copy the numbers to another tensor, because a runtime identifies outputs by the names of their tensors."""
        if tensor.shape.count(-1) <= 1:
            return self.reshape(tensor, tensor.shape)
        return self._add("RESHAPE", [tensor, self.shape(tensor)], tensor.dtype, tensor.shape)

    def write(self, path: Path, outputs: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
        """End the only subgraph and write the file.

        Raises:
            BadInputError: the file would be larger than the format allows.
        """
        self.end(ONLY_SIGNATURE, self.inputs, outputs)
        self._builder.write(path, metadata)

    def _add(self, name: str, inputs: Sequence[Tensor], dtype: str, shape: Sequence[int], **options: Any) -> Tensor:
        return self._add_all(name, inputs, [(dtype, shape)], options)[0]

    def _add_all(
        self, name: str, inputs: Sequence[Tensor], made: Sequence[tuple[str, Sequence[int]]], options: Mapping[str, Any]
    ) -> list[Tensor]:
        """Add an operator with outputs of some types and shapes."""
        stem = f"{self._prefix}{name.lower()}_{self._builder.num_operators}"
        names = [stem, *(f"{stem}_{at}" for at in range(1, len(made)))]
        outputs = [self._tensor(each, dtype, shape) for each, (dtype, shape) in zip(names, made, strict=True)]
        numbers = [[tensor.index for tensor in tensors] for tensors in (inputs, outputs)]
        self._builder.add_operator(name, numbers[0], numbers[1], OPERATORS[name], options)
        return outputs

    def _tensor(self, name: str, dtype: str, shape: Sequence[int], buffer: int = 0) -> Tensor:
        return Tensor(self._builder.add_tensor(name, dtype, shape, buffer), name, dtype, tuple(shape))


def _broadcast(left: Sequence[int], right: Sequence[int]) -> tuple[int, ...]:
    rank = max(len(left), len(right))
    sizes = zip((1,) * (rank - len(left)) + tuple(left), (1,) * (rank - len(right)) + tuple(right), strict=True)
    return tuple(b if a == 1 else a if b in (1, -1) else b for a, b in sizes)
