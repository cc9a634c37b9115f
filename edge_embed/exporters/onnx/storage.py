"""Writing of ONNX models: as one file, or as a small file with aligned external data beside it.

Runtimes map external data into memory instead of copying it, if it is aligned: to 64 bytes (a cache line,
and any vector load), and to 4,096 (a page) for large tensors.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal, get_args

import numpy as np
import onnx
import onnx_ir as ir

from edge_embed.errors import BadInputError, suggested
from edge_embed.exporters.onnx.model_file import PROTOBUF_LIMIT
from edge_embed.files import new_files

ExternalData = Literal["auto", "always", "never"]

# One file is simpler to ship (browser loaders require one), but it is copied into memory: in a measurement, 64 MB of
# codes in an external file took 8 MB of resident memory instead of 131.
AUTO_THRESHOLD = 128 << 20
SMALLEST_EXTERNAL = 1024
_LARGE = 64 << 10

# Linux maps whole parts of the page cache, which are as large as the write that made them: after one write of 256 MB,
# a lookup of 256 rows mapped 220 MB, and 16 MB after writes of this size.
_WRITE_BYTES = 64 << 10


def goes_external(model: ir.Model, external_data: ExternalData) -> bool:
    """Return whether weights go to an external file.

    Raises:
        BadInputError: the choice is unknown, or external data is excluded and the single file would exceed the limit
            of protobuf, 2 GB.
    """
    choices = get_args(ExternalData)
    if external_data not in choices:
        hint = suggested(str(external_data), choices)
        raise BadInputError(f"external_data: got {external_data!r}, {hint}expected one of {', '.join(choices)}")
    sizes = [tensor.nbytes for _, tensor in _stored(model)]
    if external_data == "never" and sum(sizes) > PROTOBUF_LIMIT:
        raise BadInputError(
            f"{sum(sizes)} bytes of weights exceed the limit of one ONNX file, 2 GB: use --external-data auto"
        )
    wanted = external_data == "always" or (external_data == "auto" and sum(sizes) > AUTO_THRESHOLD)
    return wanted and max(sizes, default=0) >= SMALLEST_EXTERNAL


def weights_file(path: Path) -> Path:
    """Return the path of the external weights of the ONNX file ``path``."""
    return path.with_name(path.name + ".data")


def _has_weights_file(path: Path) -> bool:
    """Return whether the file at ``path`` is an ONNX file with weights in `weights_file`."""
    if not path.is_file() or not weights_file(path).is_file():
        return False
    try:
        tensors = onnx.load(path, load_external_data=False).graph.initializer
    except Exception:  # no ONNX file, so the weights file beside it is not ours
        return False
    places = (entry.value for tensor in tensors for entry in tensor.external_data if entry.key == "location")
    return weights_file(path).name in places


@contextmanager
def new_model(path: Path, external: bool, force: bool) -> Iterator[tuple[Path, Path | None]]:
    """Yield temporary paths for an ONNX file and its `weights_file`, if it has one; they become the files.

    Args:
        path: path of the ONNX file.
        external: whether it has a weights file.
        force: overwrite existing files; the weights file of a replaced model is removed with it.

    Raises:
        BadInputError: see `edge_embed.files.new_files`.
        OutputError: the files cannot be written; nothing partial is left.
    """
    data = [weights_file(path)] if external else []
    outdated = not data and _has_weights_file(path)
    with new_files([*data, path], force=force) as temporary:
        yield temporary[-1], temporary[0] if data else None
    if outdated:  # it belonged to the replaced file
        weights_file(path).unlink(missing_ok=True)


def write_model(model: ir.Model, path: Path, data_path: Path | None) -> None:
    """Write ``model`` to ``path``, with larger weights in ``data_path`` (same folder) if it is given."""
    if data_path is not None:
        _move_weights(model, data_path)
    _write_streamed(model, path)


def _stored(model: ir.Model) -> list[tuple[ir.Value, ir.TensorProtocol]]:
    """Return the weights whose bytes are in memory, not in another file."""
    values = model.graph.initializers.values()
    return [
        (value, value.const_value)
        for value in values
        if value.const_value is not None and not isinstance(value.const_value, ir.ExternalTensor)
    ]


def _move_weights(model: ir.Model, data_path: Path) -> None:
    with data_path.open("wb") as file:
        for value, tensor in _stored(model):
            if tensor.nbytes < SMALLEST_EXTERNAL:
                continue
            offset = append_weights(file, tensor_bytes(tensor))
            value.const_value = ir.ExternalTensor(
                data_path.name,
                offset,
                tensor.nbytes,
                tensor.dtype,
                shape=ir.Shape(tensor.shape.numpy()),
                name=str(value.name),
            )


def append_weights(file: BinaryIO, content: memoryview) -> int:
    """Write a tensor to a weights file, aligned for mapping, and return its offset."""
    file.write(b"\0" * (-file.tell() % (4096 if content.nbytes >= _LARGE else 64)))
    offset = file.tell()
    for start in range(0, content.nbytes, _WRITE_BYTES):
        file.write(content[start : start + _WRITE_BYTES])
    return offset


def _write_streamed(model: ir.Model, path: Path) -> None:
    """Serialise without copying large weights: only their headers go through protobuf.

    Wire format: a field is the varint ``number << 3 | 2``, the length as a varint, then the content;
    ModelProto.graph is 7, GraphProto.initializer 5, TensorProto.raw_data 9.
    """
    names = {*model.graph.initializers}
    streamed: list[tuple[bytes, ir.TensorProtocol]] = []
    for value, tensor in _stored(model):
        if tensor.nbytes >= _LARGE:
            proto = onnx.TensorProto(name=value.name, dims=tensor.shape.numpy(), data_type=int(tensor.dtype))
            streamed.append((proto.SerializeToString() + _field(9, tensor.nbytes), tensor))
            del model.graph.initializers[str(value.name)]
    rest = ir.to_proto(model)
    # A weight has its own type and shape; a second copy would be wrong after quantize_dynamic transposes the weight.
    noted = [value for value in rest.graph.value_info if value.name not in names]
    del rest.graph.value_info[:]
    rest.graph.value_info.extend(noted)
    graph = rest.graph.SerializeToString(deterministic=True)
    rest.ClearField("graph")
    size = len(graph) + sum(
        len(_field(5, len(header) + tensor.nbytes)) + len(header) + tensor.nbytes for header, tensor in streamed
    )
    with path.open("wb") as file:
        file.write(rest.SerializeToString(deterministic=True))
        file.write(_field(7, size))
        file.write(graph)
        for header, tensor in streamed:
            file.write(_field(5, len(header) + tensor.nbytes))
            file.write(header)
            file.write(tensor_bytes(tensor))


def tensor_bytes(tensor: ir.TensorProtocol) -> memoryview:
    """Return the content of a weight, little-endian, without a copy if it is stored so."""
    array = np.ascontiguousarray(tensor.numpy()).reshape(-1)
    return (array if sys.byteorder == "little" else array.byteswap()).view(np.uint8).data


def _field(number: int, length: int) -> bytes:
    return _varint(number << 3 | 2) + _varint(length)


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
