"""Location of the onnxruntime-extensions library, whose operators implement the tokenizer of a file."""

from importlib import import_module
from pathlib import Path
from typing import BinaryIO

from edge_embed.errors import EdgeEmbedError

_DOMAIN = b"ai.onnx.contrib"
_OPSET_IMPORT = 8  # field of ModelProto
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5  # wire types of protobuf


def needs_extensions(path: Path) -> bool:
    """Return whether an ONNX file imports the operators of onnxruntime-extensions; False for a damaged file.

    Only the headers of the top-level fields are read, without the package onnx and without the weights.
    """
    left = path.stat().st_size
    with path.open("rb") as file:
        while (tag := _varint(file)) is not None:
            number, wire = tag >> 3, tag & 7
            length = {_VARINT: 0, _FIXED64: 8, _FIXED32: 4}.get(wire)
            if wire == _VARINT:
                _varint(file)
            if wire == _LENGTH:
                length = _varint(file)
            if length is None or length > left:  # a truncated or foreign file
                return False
            if number == _OPSET_IMPORT and _DOMAIN in file.read(length):
                return True
            if number != _OPSET_IMPORT:
                file.seek(length, 1)
    return False


def _varint(file: BinaryIO) -> int | None:
    value = 0
    for shift in range(0, 64, 7):
        byte = file.read(1)
        if not byte:
            return None
        value |= (byte[0] & 0x7F) << shift
        if byte[0] < 0x80:
            return value
    return None


def get_extensions_path() -> Path:
    """Return the path of the library of onnxruntime-extensions.

    Raises:
        EdgeEmbedError: the package is not installed.
    """
    try:
        module = import_module("onnxruntime_extensions")
    except ImportError as error:
        raise EdgeEmbedError(
            "got a model with a tokenizer, which requires the package onnxruntime-extensions: "
            'pip install "edge-embed[tokenizer]"'
        ) from error
    return Path(module.get_library_path())
