"""Contents that lie outside the flatbuffer of a TFLite file: behind it, or in files beside it.

ai-edge-quantizer puts them behind it from 256 KiB on, converters from 2 GB on: a buffer has an offset from the start of
the file, and a size. Files beside it are those of external buffers, by the number that tensors have.
"""

import mmap
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.exporters.tflite.flatbuffer import load_schema

_PLACEHOLDER = 1  # an offset that says nothing yet


def open_content(path: Path) -> mmap.mmap:
    """A file that is not empty, mapped into memory.

    Raises:
        OSError: it cannot be read.
        ValueError: it is empty.
    """
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def take_in(model: Any, content: mmap.mmap, path: Path) -> tuple[Path, ...]:
    """Give a model (of the schema's classes) all contents as if they lay in the flatbuffer.

    Args:
        model: it is changed.
        content: of its file.
        path: of its file.

    Returns:
        The files beside it that hold some.

    Raises:
        BadInputError: a file beside it is missing, lies elsewhere, or is of a form that is not known.
        ValueError: a content ends behind its file.
    """
    for number, buffer in enumerate(model.buffers):
        if buffer.offset > _PLACEHOLDER and (buffer.data is None or not len(buffer.data)):
            buffer.data = _part(content, buffer.offset, buffer.size, f"buffer {number}")
        buffer.offset = buffer.size = 0
    for operator in (operator for graph in model.subgraphs for operator in graph.operators):
        if operator.largeCustomOptionsOffset > _PLACEHOLDER:
            begin, size = operator.largeCustomOptionsOffset, operator.largeCustomOptionsSize
            operator.customOptions = _part(content, begin, size, "the options of an operator")
        operator.largeCustomOptionsOffset = operator.largeCustomOptionsSize = 0
    return _take_in_external(model, path)


def content_behind(content: Any, buffer: Any) -> NDArray[np.uint8] | None:
    """What a packed buffer of the schema has behind the flatbuffer, None if nothing.

    Raises:
        ValueError: it ends behind the file.
    """
    if buffer.Offset() <= _PLACEHOLDER or buffer.DataLength():
        return None
    return _part(content, buffer.Offset(), buffer.Size(), "a buffer")


def _part(content: Any, begin: int, size: int, what: str) -> NDArray[np.uint8]:
    if begin + size > len(content):
        raise ValueError(f"{what} ends at byte {begin + size:,} of {len(content):,}")
    return np.frombuffer(content, np.uint8, size, begin)


def _take_in_external(model: Any, path: Path) -> tuple[Path, ...]:
    external = {each.id: each for each in model.externalBuffers or ()}
    files: dict[Path, mmap.mmap] = {}
    numbers: dict[int, int] = {}
    for tensor in (tensor for graph in model.subgraphs for tensor in graph.tensors):
        if not tensor.externalBuffer:
            continue
        if tensor.externalBuffer not in external:
            raise ValueError(f"external buffer {tensor.externalBuffer} is not there")
        if tensor.externalBuffer not in numbers:
            numbers[tensor.externalBuffer] = len(model.buffers)
            buffer = load_schema().BufferT()
            buffer.data = _external(model, external[tensor.externalBuffer], path, files)
            model.buffers.append(buffer)
        tensor.buffer, tensor.externalBuffer = numbers[tensor.externalBuffer], 0
    model.externalBuffers = model.externalBufferGroups = None
    return tuple(files)


def _external(model: Any, entry: Any, path: Path, files: dict[Path, mmap.mmap]) -> NDArray[np.uint8]:
    if entry.packing:
        got = f"weights in a file beside it that are packed as {entry.packing.decode()!r:.80}"
        raise BadInputError(f"{path}: got {got}, expected them as they are: write the model without that packing")
    name = (model.externalBufferGroups[entry.group].name or b"").decode()
    parts = PurePosixPath(name.replace("\\", "/"))
    if not name or parts.is_absolute() or ".." in parts.parts:
        raise BadInputError(f"{path}: got weights in {name!r:.200}, expected a file beside the model: put it there")
    file = path.parent / name
    if not file.resolve().is_relative_to(path.parent.resolve()):
        raise BadInputError(f"{path}: got weights in {name!r:.200}, which is a link to another folder: copy them here")
    if file not in files:
        if not file.is_file():
            raise BadInputError(f"{path}: its weights lie in {file}, which is no regular file: put it beside the model")
        try:
            files[file] = open_content(file)
        except OSError as error:
            raise BadInputError(f"{file}: cannot be read: {error.strerror or error}") from error
    return _part(files[file], entry.offset, entry.length, f"external buffer {entry.id}")
