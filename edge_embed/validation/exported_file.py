"""The exported file in validation: checked structure, tables, and weights that are read block by block.

Weights inside the ``.onnx`` file are held in memory once, and twice while protobuf parses the file.
By default they are at most 128 MB. Weights in external files are read 1 MiB at a time.
"""

from collections.abc import Iterator
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import FunctionProto, GraphProto, NodeProto, TensorProto, numpy_helper

from edge_embed.compression.onnx.scopes import graphs_of
from edge_embed.errors import BadInputError
from edge_embed.exporters.exported import id_check_of
from edge_embed.exporters.onnx.model_file import PROTOBUF_LIMIT, ExternalTensor
from edge_embed.exporters.onnx.names import DOMAIN, MANIFEST_KEY
from edge_embed.input_file import read_whole
from edge_embed.inspection.inspect import is_ort_format
from edge_embed.inspection.onnx_weights import Weights
from edge_embed.packed.container import little_endian
from edge_embed.packed.manifest import Manifest, parse_manifest
from edge_embed.packed.packed_form import TensorSpec

_BLOCK_BYTES = 1 << 20


class ExportedModel:
    """An ``.onnx`` file whose structure is sound.

    Args:
        path: path of the file.
        original: the file that it was compressed from, if any. A complaint of the ONNX checker that the original gets
            too is accepted: the runtime decides.

    Attributes:
        path: path of the file.
        proto: the model, external data not loaded.
        weights: sizes and places of its initializers.
        manifest: manifest of its tables, or None.
        id_check: check of ids around its lookups and bags, or None.
        refusal: the checker's message if it refuses the original too, otherwise empty.

    Raises:
        BadInputError: the file is missing, truncated or no valid ONNX model, or its external data is missing, too
            short or outside its folder.
    """

    def __init__(self, path: Path, original: Path | None = None) -> None:
        self.path = path
        try:
            self.proto = _parse(path)
            self.weights = Weights(path, self.proto)
            properties = {item.key: item.value for item in self.proto.metadata_props}
            self.manifest: Manifest | None = None
            if MANIFEST_KEY in properties:
                self.manifest = parse_manifest(properties[MANIFEST_KEY], path.stat().st_size)
            self.id_check = id_check_of(properties)
        except BadInputError as error:
            raise BadInputError(f"{path}: {error}") from error
        self.refusal = _refusal(path)
        if self.refusal and (original is None or not _refusal(original)):
            raise BadInputError(f"{path}: the ONNX checker refuses it: {self.refusal}; export it again")
        self._initializers = {tensor.name: tensor for tensor in self.proto.graph.initializer}

    @property
    def files(self) -> tuple[Path, ...]:
        """Return the path of the model file, then those of its external data."""
        return (self.path, *(self.path.parent / file.name for file in self.weights.files()))

    @property
    def nodes(self) -> list[NodeProto]:
        """Return the nodes of this package's operators, including those in branches and loop bodies."""
        return [node for node in nodes_inside(self.proto.graph) if node.domain == DOMAIN]

    @property
    def num_outer_nodes(self) -> int:
        """Return the number of this package's nodes outside of branches and loop bodies."""
        return sum(node.domain == DOMAIN for node in self.proto.graph.node)

    def nodes_of(self, tensors: list[str]) -> list[NodeProto]:
        """Return the nodes whose last inputs are the named initializers."""
        return [node for node in self.nodes if list(node.input[-len(tensors) :]) == tensors]

    def has_body(self, op_type: str) -> bool:
        """Return whether the file holds the portable body of an operator."""
        return any((body.domain, body.name) == (DOMAIN, op_type) for body in self.proto.functions)

    def spec(self, name: str) -> TensorSpec | None:
        """Return type and shape of an initializer, or None if there is none of that name."""
        return self.weights.spec(name)

    def blocks(self, name: str) -> Iterator[memoryview]:
        """Yield the bytes of an initializer, little-endian, in order."""
        tensor = self._initializers[name]
        if tensor.data_location == TensorProto.EXTERNAL:
            yield from _file_blocks(ExternalTensor(self.path.parent, tensor))
            return
        if tensor.HasField("raw_data"):
            view = memoryview(tensor.raw_data)
        else:
            view = little_endian(numpy_helper.to_array(tensor)).data.cast("B")
        for start in range(0, len(view), _BLOCK_BYTES):
            yield view[start : start + _BLOCK_BYTES]

    def initializer_bytes(self) -> int:
        """Return the bytes of all initializers in the file."""
        return sum(self.weights.nbytes(name) for name in self._initializers)


def nodes_inside(graph: GraphProto | FunctionProto) -> Iterator[NodeProto]:
    """Yield the nodes of a graph or function and of the graphs inside it."""
    for node in graph.node:
        yield node
        for inner in graphs_of(node):
            yield from nodes_inside(inner)


def _parse(path: Path) -> onnx.ModelProto:
    content = read_whole(path, PROTOBUF_LIMIT, "an exported .onnx model")
    try:
        if is_ort_format(content[:8]):
            raise BadInputError("is in ORT format, expected the .onnx model before that conversion")
        model = onnx.ModelProto()
        model.ParseFromString(content)
    except DecodeError as error:
        raise BadInputError(f"is damaged or not an ONNX model ({error}): export it again") from error
    if model.ir_version < 1 or not model.opset_import or not model.graph.node:
        raise BadInputError(
            "is truncated or not an ONNX model: it has no version, operator set or node; export it again"
        )
    return model


def _refusal(path: Path) -> str:
    """Return the message of the ONNX checker with shape inference, given a path because that has no 2 GB limit."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:  # the checker's exceptions share no base class
        return str(error).strip().partition("\n")[0] or type(error).__name__
    return ""


def _file_blocks(tensor: ExternalTensor) -> Iterator[memoryview]:
    with tensor.path.open("rb") as file:
        file.seek(tensor.begin)
        remaining = tensor.nbytes
        while remaining:
            block = file.read(min(remaining, _BLOCK_BYTES))
            if not block:
                raise BadInputError(
                    f"{tensor.path}: ends {remaining} bytes early: the file became shorter while it was read"
                )
            remaining -= len(block)
            yield memoryview(block)
