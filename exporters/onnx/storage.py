"""Writes an ONNX model as one file, or as a small file and one of aligned weights beside it.

Runtimes map external data into memory instead of copying it, if it is aligned: to 64 bytes (a cache line,
and any vector load), and to 4,096 (a page) for large tensors.
"""

from pathlib import Path
from typing import Literal

import numpy as np
import onnx_ir as ir

from edge_embed.errors import BadInputError, EdgeEmbedError

ExternalData = Literal["auto", "always", "never"]

# One file is simpler to ship (browser loaders want one), but it is copied into memory: 64 MB of codes in a
# file of their own were measured to cost 8 MB resident instead of 131.
AUTO_THRESHOLD = 128 << 20
_PROTOBUF_LIMIT = 2**31 - 1
_SMALLEST_EXTERNAL = 1024
_LARGE = 64 << 10


def goes_external(model: ir.Model, external_data: ExternalData) -> bool:
    """Whether weights go into a file of their own.

    Raises:
        BadInputError: if they must not and the single file would pass protobuf's limit of 2 GB.
    """
    size = sum(value.const_value.nbytes for value in _stored(model))
    if external_data == "never" and size > _PROTOBUF_LIMIT:
        raise BadInputError(f"{size} bytes of weights do not fit one ONNX file (limit 2 GB): use --external-data auto")
    return external_data == "always" or (external_data == "auto" and size > AUTO_THRESHOLD)


def write_model(model: ir.Model, path: Path, data_path: Path | None) -> None:
    """Write ``model`` to ``path``, with larger weights in ``data_path`` (same folder) if it is given."""
    if data_path is not None:
        _move_weights(model, data_path)
    path.write_bytes(ir.to_proto(model).SerializeToString(deterministic=True))


def _stored(model: ir.Model) -> list[ir.Value]:
    return [value for value in model.graph.initializers.values() if value.const_value is not None]


def _move_weights(model: ir.Model, data_path: Path) -> None:
    with data_path.open("wb") as file:
        for value in _stored(model):
            tensor = value.const_value
            if tensor is None or tensor.nbytes < _SMALLEST_EXTERNAL:
                continue
            alignment = 4096 if tensor.nbytes >= _LARGE else 64
            file.write(b"\0" * (-file.tell() % alignment))
            offset = file.tell()
            array = np.ascontiguousarray(tensor.numpy())
            array = array.astype(array.dtype.newbyteorder("<"), copy=False)
            file.write(memoryview(array).cast("B"))
            if file.tell() - offset != tensor.nbytes:
                raise EdgeEmbedError(f"weight {value.name} has {file.tell() - offset} bytes, expected {tensor.nbytes}")
            value.const_value = ir.ExternalTensor(
                data_path.name, offset, tensor.nbytes, tensor.dtype, shape=ir.Shape(tensor.shape),
                name=str(value.name), base_dir=data_path.parent,
            )  # fmt: skip
