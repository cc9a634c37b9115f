"""A TFLite model as a flatbuffer, built from tensors, operators and buffers.

The object API of the schema comes from the package ai-edge-litert. It copies a buffer into the file without alignment,
but runtimes pass the mapped bytes to kernels directly. So `_aligned` puts each buffer at a multiple of 64.
"""

import struct
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError, EdgeEmbedError
from edge_embed.packed.container import little_endian, sha256

ALIGNMENT = 64
IDENTIFIER = b"TFL3"
# Errors of reading a truncated or changed file, whose offsets may have any value and texts 1,000 nested brackets.
MALFORMED = (
    struct.error, IndexError, AttributeError, TypeError, KeyError, ValueError, OverflowError, RecursionError,
)  # fmt: skip
_SCHEMA_VERSION = 3
# Offsets are signed 32-bit numbers; the parts that are no buffers take far less than the rest.
_MOST_BYTES = 2**31 - 1 - (64 << 20)
_SMALL = 1 << 20  # initial size of the file besides its buffers, in bytes; it grows if needed


def load_schema() -> Any:
    """Return the schema of TFLite as classes.

    Raises:
        EdgeEmbedError: the package with the schema is not installed.
    """
    try:
        return import_module("ai_edge_litert.schema_py_generated")
    except ImportError as error:
        raise EdgeEmbedError(
            "TFLite files require the schema of the package ai-edge-litert, which is not installed: "
            'pip install "edge-embed[tflite]"'
        ) from error


@cache
def operator_names() -> Mapping[int, str]:
    """Return the operators of the schema, such as ``GATHER``, by number."""
    return _names(load_schema().BuiltinOperator)


@cache
def type_names() -> Mapping[int, str]:
    """Return the types of tensors, such as ``float32``, by number."""
    return {number: name.lower() for number, name in _names(load_schema().TensorType).items()}


def _names(enumeration: type) -> dict[int, str]:
    return {number: name for name, number in vars(enumeration).items() if not name.startswith("_")}


class ModelBuilder:
    """Builds a model, one subgraph after the other; numbers of tensors are those of the subgraph.

    Attributes:
        digests: SHA-256 of the buffers, by number.
    """

    def __init__(self) -> None:
        self.schema = load_schema()
        self._model: Any = self.schema.ModelT()
        self._model.version, self._model.description = _SCHEMA_VERSION, b"edge-embed"
        self._model.subgraphs, self._model.signatureDefs = [], []
        self._model.operatorCodes, self._model.metadata = [], []
        self._model.buffers = [self.schema.BufferT()]  # the first belongs to all tensors without content
        self._arrays: dict[int, NDArray[np.uint8]] = {}
        self.digests: dict[int, str] = {}
        self._numbers: dict[str, int] = {}
        self._graph: Any = None

    def begin(self, graph: Any = None) -> None:
        """Begin a subgraph: an empty one, or one of the schema whose operators refer to this model."""
        if graph is None:
            graph = self.schema.SubGraphT()
            graph.tensors, graph.operators = [], []
        self._graph = graph
        self._model.subgraphs.append(graph)

    def end(self, signature: str, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> None:
        """End the subgraph; its inputs and outputs, by name, are also those of its signature."""
        self._graph.name = signature.encode()
        self._graph.inputs, self._graph.outputs = list(inputs.values()), list(outputs.values())
        self._model.signatureDefs.append(self._signature(signature, inputs, outputs))

    def adopt(self, model: Any) -> None:
        """Copy description, signatures and metadata of another model, whose subgraphs have all been begun here."""
        self._model.description, self._model.signatureDefs = model.description, model.signatureDefs
        for entry in model.metadata or ():
            content = model.buffers[entry.buffer].data
            entry.buffer = self.add_buffer(np.asarray(() if content is None else content, np.uint8))
            self._model.metadata.append(entry)

    def add_buffer(self, content: NDArray[Any]) -> int:
        """Add the content of tensors; equal content is stored once."""
        digest = sha256(content)
        if digest not in self._numbers:
            number = self._numbers[digest] = len(self._model.buffers)
            self._model.buffers.append(None)
            self._arrays[number] = little_endian(content).reshape(-1).view(np.uint8)
            self.digests[number] = digest
        return self._numbers[digest]

    def add_code(self, builtin: int, version: int = 1, custom: bytes | None = None) -> int:
        """Add a kind of operator, once."""
        known = [(entry.builtinCode, entry.version, entry.customCode) for entry in self._model.operatorCodes]
        if (builtin, version, custom) not in known:
            entry = self.schema.OperatorCodeT()
            # Old runtimes read 8 bits, and 127 for larger numbers.
            entry.builtinCode, entry.deprecatedBuiltinCode = builtin, min(builtin, 127)
            entry.version, entry.customCode = version, custom
            self._model.operatorCodes.append(entry)
            known.append((builtin, version, custom))
        return known.index((builtin, version, custom))

    def add_tensor(self, name: str, dtype: str, shape: Sequence[int], buffer: int = 0) -> int:
        """Add a tensor; -1 is a size that is known at run time. With a buffer it is a constant."""
        tensor = self.schema.TensorT()
        tensor.name, tensor.type = name.encode(), getattr(self.schema.TensorType, dtype.upper())
        tensor.shape = [max(size, 1) if size < 0 else size for size in shape]
        if -1 in shape:
            tensor.shapeSignature = list(shape)
        tensor.buffer = buffer
        self._graph.tensors.append(tensor)
        return len(self._graph.tensors) - 1

    @property
    def num_operators(self) -> int:
        """Return the number of operators so far."""
        return len(self._graph.operators)

    def add_operator(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], options: str, values: Mapping[str, Any]
    ) -> None:
        """Add an operator by its name in the schema, such as ``GATHER``, in version 1, which all runtimes support."""
        operator = self.schema.OperatorT()
        operator.opcodeIndex = self.add_code(getattr(self.schema.BuiltinOperator, name))
        operator.inputs, operator.outputs = list(inputs), list(outputs)
        if options:
            operator.builtinOptionsType = getattr(self.schema.BuiltinOptions, options)
            operator.builtinOptions = getattr(self.schema, f"{options}T")()
            vars(operator.builtinOptions).update(values)
        self._graph.operators.append(operator)

    def write(self, path: Path, metadata: Mapping[str, str]) -> None:
        """Write the file: `pack`."""
        path.write_bytes(self.pack(metadata))

    def pack(self, metadata: Mapping[str, str]) -> memoryview:
        """Return the content of the file, with metadata texts that no runtime reads.

        Raises:
            BadInputError: buffers are larger than the format allows.
        """
        self._model.metadata += [self._text(*item) for item in metadata.items()]
        builder = import_module("flatbuffers").Builder(self._checked_size() + _SMALL)
        for number, array in self._arrays.items():
            self._model.buffers[number] = self._aligned(array)
        builder.Finish(self._model.Pack(builder), IDENTIFIER)
        return memoryview(builder.Bytes)[builder.Head() :]

    def _checked_size(self) -> int:
        size = sum(array.nbytes + ALIGNMENT for array in self._arrays.values())
        if size > _MOST_BYTES:
            raise BadInputError(
                f"{size:,} bytes of tables exceed the limit of one TFLite file, 2 GB (32-bit offsets): use fewer bits "
                "a row, several models, or --target onnx, which can store weights in a second file"
            )
        return size

    def _text(self, name: str, text: str) -> Any:
        entry = self.schema.MetadataT()
        entry.name, entry.buffer = name.encode(), self.add_buffer(np.frombuffer(text.encode(), np.uint8))
        return entry

    def _signature(self, key: str, inputs: Mapping[str, int], outputs: Mapping[str, int]) -> Any:
        signature = self.schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = key.encode(), len(self._model.subgraphs) - 1
        signature.inputs = [self._named(*item) for item in inputs.items()]
        signature.outputs = [self._named(*item) for item in outputs.items()]
        return signature

    def _named(self, name: str, tensor: int) -> Any:
        entry = self.schema.TensorMapT()
        entry.name, entry.tensorIndex = name.encode(), tensor
        return entry

    def _aligned(self, array: NDArray[np.uint8]) -> Any:
        schema = self.schema

        class Aligned(schema.BufferT):  # type: ignore[misc,name-defined]
            """A buffer whose content begins at a multiple of 64 bytes of the file."""

            def Pack(self, builder: Any) -> int:
                builder.StartVector(1, array.nbytes, ALIGNMENT)
                builder.head -= array.nbytes
                builder.Bytes[builder.head : builder.head + array.nbytes] = array.data
                content = builder.EndVector()
                schema.BufferStart(builder)
                schema.BufferAddData(builder, content)
                return int(schema.BufferEnd(builder))

        return Aligned()
