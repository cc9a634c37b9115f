"""Sizes that a graph fixes although its inputs do not declare them, for example by a Reshape to constant sizes.

The axes that they belong to are not derived: all combinations are tried.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, product
from math import prod
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, numpy_helper

from edge_embed.exporters.onnx.model_file import tensors_of
from edge_embed.exporters.tflite.flatbuffer import type_names

_WHOLE = (TensorProto.INT64, TensorProto.INT32)
_MOST_NUMBERS = 8  # largest number of elements of a constant that counts as a shape
_LARGEST = 4096
_MOST = 12  # sizes tried for each axis
_MOST_VALUES = 1 << 16  # of one input


def sizes_in_onnx(model: ModelProto) -> tuple[int, ...]:
    """Return the sizes, more likely ones first."""
    tensors = list(tensors_of(model))
    shapes = [
        numpy_helper.to_array(tensor).reshape(-1).tolist()
        for tensor in tensors
        if tensor.data_type in _WHOLE
        and prod(tensor.dims) <= _MOST_NUMBERS
        and tensor.data_location != TensorProto.EXTERNAL
    ]
    values = (*model.graph.output, *model.graph.value_info)
    declared = [[size.dim_value for size in value.type.tensor_type.shape.dim] for value in values]
    return _likely(shapes, [*declared, *(list(tensor.dims) for tensor in tensors)])


def sizes_in_tflite(model: Any) -> tuple[int, ...]:
    """Return the sizes of a TFLite model, given as classes of the schema, in the same order as for ONNX."""
    tensors = [tensor for graph in model.subgraphs for tensor in graph.tensors]
    contents = ((tensor, model.buffers[tensor.buffer].data) for tensor in tensors)
    shapes = [
        np.frombuffer(bytes(content), type_names()[tensor.type]).tolist()
        for tensor, content in contents
        if content is not None and type_names()[tensor.type] in ("int32", "int64") and len(content) <= 8 * _MOST_NUMBERS
    ]
    return _likely(shapes, [list(tensor.shape) for tensor in tensors if tensor.shape is not None])


def _likely(shapes: Iterable[Sequence[int]], dims: Iterable[Sequence[int]]) -> tuple[int, ...]:
    """Return numbers of shapes, then their quotients by sizes (parts of a merged axis), then sizes of tensors."""
    numbers, others = (dict.fromkeys(map(int, chain.from_iterable(each))) for each in (shapes, dims))
    parts = (number // size for number in numbers for size in {**numbers, **others} if size > 1 and number % size == 0)
    wanted = dict.fromkeys(chain(numbers, parts, others))
    return tuple(size for size in wanted if 1 < size <= _LARGEST)[:_MOST]


def combinations(names: Sequence[str], likely: Sequence[int]) -> Iterator[dict[str, int]]:
    """Yield sizes of dynamic dimensions, except all ones; the first one, mostly the batch, is first tried as 1."""
    for sizes in product((1, *likely), repeat=len(names)):
        if 1 < prod(sizes) <= _MOST_VALUES:
            yield dict(zip(names, sizes, strict=True))
