"""Where the weights of an ONNX model lie: in the model, or in files beside it that are checked, not loaded.

External data must be a regular file inside the model's folder: a name that leaves the folder (``../``, an
absolute path, a symbolic link out) is refused, as ONNX Runtime refuses it.
"""

import hashlib
import math
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath, PureWindowsPath

from onnx import GraphProto, ModelProto, NodeProto, TensorProto, numpy_helper

from edge_embed.errors import BadInputError
from edge_embed.inspection.hashing import sha256_of_range
from edge_embed.inspection.report import DataFileInfo
from edge_embed.packed.container import little_endian
from edge_embed.packed.form import TensorSpec

PAGE = 4096
CACHE_LINE = 64
LARGE = 64 << 10  # from here on a tensor is aligned to pages
_NUMPY_NAMES = {"float": "float32", "double": "float64"}  # every other type has the same name in both
_TYPED_FIELDS = "float_data int32_data int64_data double_data uint64_data string_data".split()


class ExternalTensor:
    """A tensor in a file beside the model: first byte and length, checked against the file."""

    def __init__(self, folder: Path, tensor: TensorProto) -> None:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        self.name = entries.get("location", "")
        self.path = _beside(folder, self.name)
        self.file_bytes = _file_size(self.path, self.name)
        self.begin = _number(entries.get("offset", "0"))
        self.nbytes = _number(entries.get("length", str(max(0, self.file_bytes - self.begin))))
        if self.begin + self.nbytes > self.file_bytes:
            raise BadInputError(
                f"external data {self.name!r}: got {self.file_bytes} bytes, expected at least "
                f"{self.begin + self.nbytes}: it was cut, or belongs to another model; copy both files again"
            )


class Weights:
    """All tensors of a model: sizes, checks and hashes.

    Attributes:
        data_bytes: Bytes of all files of external data.

    Raises:
        BadInputError: A tensor has fewer or more bytes than its shape, or its external data is missing, too
            short or outside the folder.
    """

    def __init__(self, path: Path, model: ModelProto) -> None:
        self._folder = path.parent
        self._external: list[ExternalTensor] = []
        self._main: dict[str, TensorProto] = {}
        for tensor in model.graph.initializer:
            if tensor.name in self._main:
                raise BadInputError(f"two initializers are named {tensor.name!r:.80}: export the model again")
            self._main[tensor.name] = tensor
        for tensor in _tensors(model):
            try:
                self._check(tensor)
            except BadInputError as error:
                raise BadInputError(f"tensor {tensor.name!r:.80}: {error}") from error
        self.data_bytes = sum(file.bytes for file in self.files())

    def spec(self, name: str) -> TensorSpec | None:
        """Type (numpy's name) and shape of an initializer of the main graph, or None if there is none."""
        tensor = self._main.get(name)
        return None if tensor is None else TensorSpec(dtype_name(tensor.data_type), tuple(tensor.dims))

    def nbytes(self, name: str) -> int:
        """Bytes of an initializer of the main graph; 0 where its type has no fixed size."""
        return expected_bytes(self._main[name]) or 0

    def sha256(self, name: str) -> str:
        """Hash an initializer of the main graph, as little-endian bytes."""
        tensor = self._main[name]
        if tensor.data_location == TensorProto.EXTERNAL:
            external = ExternalTensor(self._folder, tensor)
            with external.path.open("rb") as file:
                return sha256_of_range(file, external.begin, external.nbytes)
        if tensor.HasField("raw_data"):
            return hashlib.sha256(tensor.raw_data).hexdigest()
        return hashlib.sha256(little_endian(numpy_helper.to_array(tensor)).data).hexdigest()

    def files(self) -> list[DataFileInfo]:
        """The files of external data, by name."""
        by_name: dict[str, list[ExternalTensor]] = {}
        for tensor in self._external:
            by_name.setdefault(tensor.name, []).append(tensor)
        return [
            DataFileInfo(name, tensors[0].file_bytes, len(tensors), min(map(_alignment, tensors)))
            for name, tensors in sorted(by_name.items())
        ]

    def misaligned(self) -> int:
        """How many external tensors lie where a runtime cannot use them in place."""
        return sum(_alignment(tensor) < (PAGE if tensor.nbytes >= LARGE else CACHE_LINE) for tensor in self._external)

    def _check(self, tensor: TensorProto) -> None:
        expected = expected_bytes(tensor)
        if tensor.data_location == TensorProto.EXTERNAL:
            external = ExternalTensor(self._folder, tensor)
            if expected is not None and external.nbytes != expected:
                raise BadInputError(f"got {external.nbytes} bytes of external data, expected {expected}")
            self._external.append(external)
        elif tensor.HasField("raw_data"):
            if expected is not None and len(tensor.raw_data) != expected:
                raise BadInputError(f"got {len(tensor.raw_data)} bytes, expected {expected}")
        elif expected and not any(len(getattr(tensor, name)) for name in _TYPED_FIELDS):
            raise BadInputError(f"got no data, expected {expected} bytes")


def dtype_name(data_type: int) -> str:
    """The name numpy has for a type; ``unknown`` for what this version of onnx does not know."""
    if data_type not in TensorProto.DataType.values():
        return "unknown"
    name = str(TensorProto.DataType.Name(data_type)).lower()
    return _NUMPY_NAMES.get(name, name)


def expected_bytes(tensor: TensorProto) -> int | None:
    """Bytes that a tensor must have by its type and shape; None where the type has no fixed size."""
    name = dtype_name(tensor.data_type)
    if any(size < 0 for size in tensor.dims) or name in ("unknown", "undefined"):
        raise BadInputError(f"got shape {list(tensor.dims)} and type {tensor.data_type}, which no tensor has")
    digits = re.search(r"\d+", name)  # the first number in the name of a type is its size in bits
    if digits is None and name != "bool":
        return None
    bits = 8 if digits is None else int(digits[0])
    return -(-math.prod(map(int, tensor.dims)) * bits // 8)


def _tensors(model: ModelProto) -> Iterator[TensorProto]:
    yield from tensors_of_graph(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from _tensors_of_node(node)


def tensors_of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    """All tensors of a graph: initializers and constants, those of subgraphs too."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from _tensors_of_node(node)


def _tensors_of_node(node: NodeProto) -> Iterator[TensorProto]:
    for attribute in node.attribute:
        if attribute.HasField("t"):
            yield attribute.t
        yield from attribute.tensors
        for graph in (attribute.g, *attribute.graphs):
            yield from tensors_of_graph(graph)


def _beside(folder: Path, name: str) -> Path:
    if not name or "\0" in name:
        raise BadInputError(f"external data: got location {name!r:.80}, expected a file name")
    kinds = (PurePosixPath(name), PureWindowsPath(name))  # on every system what is unsafe on one
    path = folder / name
    real, root = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    if any(kind.root or kind.drive or ".." in kind.parts for kind in kinds) or not real.is_relative_to(root):
        raise BadInputError(
            f"external data {name!r:.200}: lies outside the model's folder, expected one beside the model: "
            "do not use a model that reaches for other files unless you know who made it"
        )
    return path


def _file_size(path: Path, name: str) -> int:
    try:
        status = path.stat()
    except OSError as error:
        reason = error.strerror or error
        raise BadInputError(
            f"external data {name!r:.200}: {reason}: keep it beside the model, both files belong together"
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise BadInputError(f"external data {name!r:.200}: is no regular file")
    return status.st_size


def _number(text: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text):
        raise BadInputError(f"external data: got {text!r:.80}, expected a count of bytes")
    return int(text)


def _alignment(tensor: ExternalTensor) -> int:
    return min(PAGE, tensor.begin & -tensor.begin or PAGE)
