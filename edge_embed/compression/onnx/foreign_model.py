"""An ONNX file of any tool: parsed and checked as a whole, with tensors that are read on demand."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import ModelProto, TensorProto, helper, numpy_helper

from edge_embed.compression.onnx.scopes import STANDARD, walk
from edge_embed.errors import BadInputError, located
from edge_embed.exporters.onnx.model_file import (
    ExternalTensor,
    checked_tensor,
    damaged,
    dtype_name,
    parse_model,
    tensors_of,
)
from edge_embed.exporters.onnx.names import OPSET

FLOATS = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class ForeignModel:
    """A file that was read.

    Attributes:
        path: path of the file.
        model: its structure, which `edge_embed.compression.onnx` changes.
        files: the file and its external data files.
    """

    path: Path
    model: ModelProto
    files: tuple[Path, ...]

    @property
    def opset(self) -> int:
        """Return the version of the standard operators."""
        return next(int(item.version) for item in self.model.opset_import if item.domain in STANDARD)

    @property
    def tensors(self) -> Iterator[TensorProto]:
        """Return all tensors of the graph, of the graphs inside it and of functions."""
        return tensors_of(self.model)

    @property
    def numbers(self) -> int:
        """Return the number of floats and of 8-bit integers, which quantised weights are."""
        kinds = (*FLOATS, "int8", "uint8")
        weights = (tensor for tensor in tensors_of(self.model) if dtype_name(tensor.data_type) in kinds)
        return sum(math.prod(tensor.dims) for tensor in weights)

    def array(self, tensor: TensorProto) -> NDArray[Any]:
        """Return the contents of a tensor; external data is mapped, not read."""
        if tensor.data_location != TensorProto.EXTERNAL:
            return numpy_helper.to_array(tensor)
        external = ExternalTensor(self.path.parent, tensor)
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type)).newbyteorder("<")
        return np.memmap(external.path, dtype, "c", external.begin, tuple(tensor.dims))


def read_foreign(path: Path) -> ForeignModel:
    """Read a file.

    Raises:
        BadInputError: it is no ONNX model or damaged, or its external data is missing, short or outside its folder.
    """
    with damaged(path):
        model = parse_model(path)
        versions = {item.version for item in model.opset_import if item.domain in STANDARD}
        if not versions and any(node.domain in STANDARD for node in walk(model.graph.node)):
            raise BadInputError("contains standard operators, but imports no version of them: export it again")
        if not versions:  # a file with nodes of com.microsoft only; changes add standard nodes
            model.opset_import.append(helper.make_opsetid("", OPSET))
        if len(versions) > 1:
            raise BadInputError(
                f"imports versions {sorted(versions)} of the standard operators, expected one: export it again"
            )
        beside: dict[Path, None] = {}
        for tensor in tensors_of(model):
            with located(f"tensor {tensor.name!r:.80}"):
                external = checked_tensor(path.parent, tensor)
            if external is not None:
                beside[external.path.resolve()] = None
        return ForeignModel(path, model, (path, *beside))
