"""Reading of ONNX files: the structure is parsed once, and every tensor is checked before it is used.

External data must be a regular file inside the model's folder. A name that leaves the folder (``../``, an
absolute path, a symbolic link out) is refused, as in ONNX Runtime.
"""

import math
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto

from edge_embed.errors import BadInputError
from edge_embed.input_file import path_beside

# Fields of a truncated or changed message can hold any value; code that reads them raises these errors.
_MALFORMED = (TypeError, ValueError, AttributeError, KeyError, IndexError, OverflowError, RecursionError)
PROTOBUF_LIMIT = 2**31 - 1  # bytes
_NUMPY_NAMES = {"float": "float32", "double": "float64"}  # every other type has the same name in numpy and ONNX
_TYPED_FIELDS = "float_data int32_data int64_data double_data uint64_data string_data".split()


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    """Convert errors of a damaged file to a `BadInputError` with its path."""
    try:
        yield
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error
    except OSError as error:
        raise BadInputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except _MALFORMED as error:
        raise BadInputError(f"{path}: is damaged or not an ONNX model: {error}; export it again") from error


def parse_model(path: Path) -> ModelProto:
    """Parse the structure of a model, without checks of its tensors.

    Raises:
        BadInputError: it is no ONNX model, or damaged. The message has no path.
        OSError: the file cannot be read.
    """
    size = path.stat().st_size
    if size > PROTOBUF_LIMIT:
        raise BadInputError(f"got {size} bytes, expected at most {PROTOBUF_LIMIT}, the limit of protobuf")
    try:
        model: ModelProto = ModelProto.FromString(path.read_bytes() if size else b"")
    except DecodeError as error:
        raise BadInputError(f"is damaged or not an ONNX model ({error}): export it again") from error
    if model.ir_version < 1 or not model.opset_import or not model.graph.node:
        raise BadInputError(
            "is truncated or not an ONNX model: it has no version, operator set or node; export it again"
        )
    return model


class ExternalTensor:
    """A tensor in an external file: first byte and length, checked against the file."""

    def __init__(self, folder: Path, tensor: TensorProto) -> None:
        entries = {entry.key: entry.value for entry in tensor.external_data}
        self.name = entries.get("location", "")
        self.path = path_beside(folder, self.name, "external data")
        self.file_bytes = _file_size(self.path, self.name)
        self.begin = _number(entries.get("offset", "0"))
        self.nbytes = _number(entries.get("length", str(max(0, self.file_bytes - self.begin))))
        if self.begin + self.nbytes > self.file_bytes:
            raise BadInputError(
                f"external data {self.name!r}: got {self.file_bytes} bytes, expected at least "
                f"{self.begin + self.nbytes}: it is truncated or belongs to another model; copy both files again"
            )


def checked_tensor(folder: Path, tensor: TensorProto) -> ExternalTensor | None:
    """Check a tensor, and return its place if it is external.

    Raises:
        BadInputError: it does not have the bytes of its shape, or its external data is missing, too short or outside
            the folder. The message does not name the tensor.
    """
    expected = expected_bytes(tensor)
    if tensor.data_location == TensorProto.EXTERNAL:
        external = ExternalTensor(folder, tensor)
        if expected is not None and external.nbytes != expected:
            raise BadInputError(f"got {external.nbytes} bytes of external data, expected {expected}")
        return external
    if tensor.HasField("raw_data"):
        if expected is not None and len(tensor.raw_data) != expected:
            raise BadInputError(f"got {len(tensor.raw_data)} bytes, expected {expected}")
    elif expected and not any(len(getattr(tensor, name)) for name in _TYPED_FIELDS):
        raise BadInputError(f"got no data, expected {expected} bytes")
    return None


def dtype_name(data_type: int) -> str:
    """Return numpy's name of a type, or ``unknown`` for a type that this version of onnx does not know."""
    if data_type not in TensorProto.DataType.values():
        return "unknown"
    name = str(TensorProto.DataType.Name(data_type)).lower()
    return _NUMPY_NAMES.get(name, name)


def expected_bytes(tensor: TensorProto) -> int | None:
    """Return the bytes of a tensor by its type and shape, or None if the type has no fixed size."""
    name = dtype_name(tensor.data_type)
    if any(size < 0 for size in tensor.dims) or name in ("unknown", "undefined"):
        raise BadInputError(
            f"got shape {list(tensor.dims)} and type {tensor.data_type}, expected those of a valid tensor"
        )
    digits = re.search(r"\d+", name)  # the first number in the name of a type is its size in bits
    if digits is None and name != "bool":
        return None
    bits = 8 if digits is None else int(digits[0])
    return -(-math.prod(map(int, tensor.dims)) * bits // 8)


def tensors_of(model: ModelProto) -> Iterator[TensorProto]:
    """Yield all tensors of a model: of its graph, of graphs inside it, and of its functions."""
    yield from tensors_of_graph(model.graph)
    for function in model.functions:
        for node in function.node:
            yield from tensors_of_node(node)


def tensors_of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    """Yield all tensors of a graph: initializers and constants, including those of subgraphs."""
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        yield from tensors_of_node(node)


def tensors_of_node(node: NodeProto) -> Iterator[TensorProto]:
    """Yield the tensors in the attributes of a node, including those of subgraphs."""
    for attribute in node.attribute:
        yield from tensors_of_attribute(attribute)


def tensors_of_attribute(attribute: AttributeProto) -> Iterator[TensorProto]:
    """Yield the tensors in an attribute, including those of subgraphs."""
    if attribute.HasField("t"):
        yield attribute.t
    yield from attribute.tensors
    for graph in (attribute.g, *attribute.graphs):
        yield from tensors_of_graph(graph)


def _file_size(path: Path, name: str) -> int:
    try:
        status = path.stat()
    except OSError as error:
        reason = error.strerror or error
        raise BadInputError(
            f"external data {name!r:.200}: {reason}: keep it beside the model, both files belong together"
        ) from error
    if not stat.S_ISREG(status.st_mode):
        raise BadInputError(f"external data {name!r:.200}: is not a regular file")
    return status.st_size


def _number(text: str) -> int:
    if not re.fullmatch("[0-9]{1,18}", text):
        raise BadInputError(f"external data: got {text!r:.80}, expected a number of bytes")
    return int(text)
