"""Contents outside the flatbuffer of a TFLite file: behind it, or in external files.

ai-edge-quantizer appends contents from 256 KiB on, converters from 2 GB on: a buffer then has an offset from the start
of the file, and a size. External files belong to external buffers, which tensors refer to by number.
"""

import mmap
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.exporters.tflite.flatbuffer import load_schema

_PLACEHOLDER = 1  # an offset that is not set yet


def open_content(path: Path) -> mmap.mmap:
    """Map a file that is not empty into memory.

    Raises:
        OSError: the file cannot be read.
        ValueError: the file is empty.
    """
    with path.open("rb") as file:
        return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def take_in(model: Any, content: mmap.mmap, path: Path) -> tuple[Path, ...]:
    """Put all contents into the buffers of a model (of the schema's classes), as if they were in the flatbuffer.

    Args:
        model: the model, which is changed.
        content: content of its file.
        path: path of its file.

    Returns:
        The external files that hold contents.

    Raises:
        BadInputError: an external file is missing, lies elsewhere, or has an unknown form.
        ValueError: a content ends after the end of its file.
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
    """Return the content of a packed buffer behind the flatbuffer, or None.

    Raises:
        ValueError: the content ends after the end of the file.
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
            raise ValueError(f"external buffer {tensor.externalBuffer} is missing")
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
        got = f"external weights packed as {entry.packing.decode()!r:.80}"
        raise BadInputError(f"{path}: got {got}, expected unpacked weights: write the model without that packing")
    name = (model.externalBufferGroups[entry.group].name or b"").decode()
    parts = PurePosixPath(name.replace("\\", "/"))
    if not name or parts.is_absolute() or ".." in parts.parts:
        raise BadInputError(f"{path}: got weights in {name!r:.200}, expected a file beside the model: put it there")
    file = path.parent / name
    if not file.resolve().is_relative_to(path.parent.resolve()):
        raise BadInputError(f"{path}: got weights in {name!r:.200}, a link to another folder: copy the file here")
    if file not in files:
        if not file.is_file():
            raise BadInputError(f"{path}: its weight file {file} is not a regular file: put it beside the model")
        try:
            files[file] = open_content(file)
        except OSError as error:
            raise BadInputError(f"{file}: cannot be read: {error.strerror or error}") from error
    return _part(files[file], entry.offset, entry.length, f"external buffer {entry.id}")
