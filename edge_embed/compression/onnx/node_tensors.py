"""Tensors of a file besides initializers: numbers of a ``Constant``, and the entries of sparse tensors."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto, helper

from edge_embed.errors import BadInputError

Held = TensorProto | SparseTensorProto
_NUMBERS = {
    "value_float": TensorProto.FLOAT,
    "value_floats": TensorProto.FLOAT,
    "value_int": TensorProto.INT64,
    "value_ints": TensorProto.INT64,
}


def held_by(node: NodeProto) -> Held | None:
    """Return the tensor of a ``Constant``, or None for text and for an attribute that refers to one of a function."""
    for item in node.attribute:
        if item.name == "value" and item.type == AttributeProto.TENSOR and item.HasField("t"):
            tensor: TensorProto = item.t
            return tensor
        if item.name == "sparse_value" and item.HasField("sparse_tensor"):
            sparse: SparseTensorProto = item.sparse_tensor
            return sparse
        if item.name in _NUMBERS and not item.ref_attr_name:
            given = helper.get_attribute_value(item)
            numbers = given if isinstance(given, list) else [given]
            shape = [len(numbers)] if item.name.endswith("s") else []
            return helper.make_tensor(node.output[0], _NUMBERS[item.name], shape, numbers)
    return None


def sparse_tensors(graph: GraphProto) -> dict[str, SparseTensorProto]:
    """Return the sparse initializers of a graph, by the name of their values, which is their own name."""
    return {sparse.values.name: sparse for sparse in graph.sparse_initializer}


def dense(sparse: SparseTensorProto, array: Callable[[TensorProto], NDArray[Any]]) -> NDArray[Any]:
    """Return the numbers of a sparse tensor, including zeros.

    Raises:
        BadInputError: an index is outside its shape.
    """
    shape, values, indices = tuple(sparse.dims), array(sparse.values), array(sparse.indices)
    if indices.ndim == 2:
        inside = indices.shape == (len(values), len(shape)) and bool(np.all((indices >= 0) & (indices < shape)))
        indices = np.ravel_multi_index(tuple(indices.T), shape) if inside and len(values) else indices
    else:
        inside = indices.shape == values.shape and bool(np.all((indices >= 0) & (indices < math.prod(shape))))
    if not inside:
        raise BadInputError(f"sparse tensor {sparse.values.name!r:.80}: has indices outside its shape {list(shape)}")
    result = np.zeros(math.prod(shape), values.dtype)
    if len(values):
        result[indices] = values
    return result.reshape(shape)
