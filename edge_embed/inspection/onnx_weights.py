"""Weights of an ONNX model: inside the model, or in files beside it that are checked, not loaded."""

import hashlib
from pathlib import Path

from onnx import ModelProto, TensorProto, numpy_helper

from edge_embed.errors import BadInputError, located
from edge_embed.exporters.onnx.model_file import (
    ExternalTensor,
    checked_tensor,
    dtype_name,
    expected_bytes,
    tensors_of,
)
from edge_embed.inspection.hashing import sha256_of_range
from edge_embed.inspection.report import DataFileInfo
from edge_embed.packed.container import little_endian
from edge_embed.packed.packed_form import TensorSpec

PAGE = 4096
CACHE_LINE = 64
LARGE = 64 << 10  # tensors of at least this size are aligned to pages


class Weights:
    """All tensors of a model: sizes, checks and hashes.

    Attributes:
        data_bytes: Bytes of all files of external data.

    Raises:
        BadInputError: The bytes of a tensor do not match its shape, or its external data is missing, too short or
            outside the folder.
    """

    def __init__(self, path: Path, model: ModelProto) -> None:
        self._folder = path.parent
        self._external: list[ExternalTensor] = []
        self._main: dict[str, TensorProto] = {}
        for tensor in model.graph.initializer:
            if tensor.name in self._main:
                raise BadInputError(f"two initializers are named {tensor.name!r:.80}: export the model again")
            self._main[tensor.name] = tensor
        for tensor in tensors_of(model):
            with located(f"tensor {tensor.name!r:.80}"):
                external = checked_tensor(path.parent, tensor)
            if external is not None:
                self._external.append(external)
        self.data_bytes = sum(file.bytes for file in self.files())

    def spec(self, name: str) -> TensorSpec | None:
        """Return type (numpy's name) and shape of an initializer of the main graph, or None if there is none."""
        tensor = self._main.get(name)
        return None if tensor is None else TensorSpec(dtype_name(tensor.data_type), tuple(tensor.dims))

    def nbytes(self, name: str) -> int:
        """Return the bytes of an initializer of the main graph; 0 if its type has no fixed size."""
        return expected_bytes(self._main[name]) or 0

    def sha256(self, name: str) -> str:
        """Return the hash of an initializer of the main graph, as little-endian bytes."""
        tensor = self._main[name]
        if tensor.data_location == TensorProto.EXTERNAL:
            external = ExternalTensor(self._folder, tensor)
            with external.path.open("rb") as file:
                return sha256_of_range(file, external.begin, external.nbytes)
        if tensor.HasField("raw_data"):
            return hashlib.sha256(tensor.raw_data).hexdigest()
        return hashlib.sha256(little_endian(numpy_helper.to_array(tensor)).data).hexdigest()

    def files(self) -> list[DataFileInfo]:
        """Return the files of external data, by name."""
        by_name: dict[str, list[ExternalTensor]] = {}
        for tensor in self._external:
            by_name.setdefault(tensor.name, []).append(tensor)
        return [
            DataFileInfo(name, tensors[0].file_bytes, len(tensors), min(map(_alignment, tensors)))
            for name, tensors in sorted(by_name.items())
        ]

    def misaligned(self) -> int:
        """Return the number of external tensors that a runtime cannot use in place because of their alignment."""
        return sum(_alignment(tensor) < (PAGE if tensor.nbytes >= LARGE else CACHE_LINE) for tensor in self._external)


def _alignment(tensor: ExternalTensor) -> int:
    return min(PAGE, tensor.begin & -tensor.begin or PAGE)
