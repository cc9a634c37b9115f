"""Writing of a changed model: as one file, or with an external data file for large weights."""

from pathlib import Path

import numpy as np
from onnx import ModelProto, TensorProto
from onnx.external_data_helper import set_external_data

from edge_embed.compression.onnx.foreign_model import ForeignModel
from edge_embed.compression.onnx.session_memory import limit_session_memory
from edge_embed.errors import BadInputError
from edge_embed.exporters.exported import OnWritten, keep_unopened
from edge_embed.exporters.onnx.model_file import PROTOBUF_LIMIT, ExternalTensor, expected_bytes, tensors_of
from edge_embed.exporters.onnx.storage import (
    AUTO_THRESHOLD,
    SMALLEST_EXTERNAL,
    append_weights,
    new_model,
    weights_file,
)


def write_foreign(
    file: ForeignModel, path: Path, force: bool, on_written: OnWritten = keep_unopened, is_external: bool = False
) -> tuple[Path, ...]:
    """Write a model; its tensors then refer to the new files.

    With external weights its tables without another limit use no session memory, as in an export: a mapped table stays
    the only copy.

    Args:
        file: the file that was read, with its changed model; external tensors are still in the old files.
        path: the file to write; weights of more than 128 MB go to ``<path>.data``, as in an export.
        force: overwrite existing files.
        on_written: called with the path of the complete file before it gets its name; an error leaves nothing.
        is_external: whether smaller weights go there too.

    Returns:
        The files.

    Raises:
        BadInputError: the model does not fit one file and has no tensor that can be external.
        OutputError: the files cannot be written; nothing partial is left.
    """
    model, folder = file.model, file.path.parent
    is_large = sum(expected_bytes(tensor) or 0 for tensor in tensors_of(model)) > AUTO_THRESHOLD
    movable = _movable(model) if is_large or is_external else []
    with new_model(path, bool(movable), force) as (temporary, data):
        if data is None:
            for tensor in tensors_of(model):
                _take_in(folder, tensor)
        else:
            _move_out(folder, movable, data)
            limit_session_memory(model, 0)
        if model.ByteSize() > PROTOBUF_LIMIT:
            raise BadInputError(f"{path}: got {model.ByteSize():,} bytes, expected at most the 2 GB of an ONNX file")
        temporary.write_bytes(model.SerializeToString(deterministic=True))
        on_written(temporary)
    return (path, weights_file(path)) if movable else (path,)


def _movable(model: ModelProto) -> list[TensorProto]:
    """Return the tensors that may be external: those that were external before, and larger tensors of the graph."""
    outside = [tensor for tensor in tensors_of(model) if tensor.data_location == TensorProto.EXTERNAL]
    inside = (tensor for tensor in model.graph.initializer if tensor.data_location != TensorProto.EXTERNAL)
    large = [tensor for tensor in inside if (expected_bytes(tensor) or 0) >= SMALLEST_EXTERNAL]
    return outside + [tensor for tensor in large if tensor.HasField("raw_data")]


def _take_in(folder: Path, tensor: TensorProto) -> None:
    if tensor.data_location == TensorProto.EXTERNAL:
        tensor.raw_data = bytes(_content(folder, tensor))
        del tensor.external_data[:]
        tensor.ClearField("data_location")


def _move_out(folder: Path, tensors: list[TensorProto], data: Path) -> None:
    with data.open("wb") as stream:
        for tensor in tensors:
            content = _content(folder, tensor)
            offset = append_weights(stream, content)
            tensor.raw_data = b""  # set_external_data requires the field
            set_external_data(tensor, data.name, offset, content.nbytes)
            tensor.ClearField("raw_data")


def _content(folder: Path, tensor: TensorProto) -> memoryview:
    if tensor.data_location != TensorProto.EXTERNAL:
        return memoryview(tensor.raw_data)
    external = ExternalTensor(folder, tensor)
    if not external.nbytes:
        return memoryview(b"")
    return np.memmap(external.path, np.uint8, "r", external.begin, (external.nbytes,)).data
