"""Dequantisation of a constant as in the runtime, bit for bit: float16, or integers with scales.

numbers = scale * (stored - zero point)        one scale in all, per row (or another axis), or per block of a row
"""

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.compression.tflite.subgraph_calls import numbers
from edge_embed.exporters.tflite.flatbuffer import type_names

_WHOLE = {"float32": "<f4", "float16": "<f2", "int8": "<i1", "uint8": "<u1", "int16": "<i2"}
_BITS = {"int4": 4, "int2": 2}
_FLOATS = ("float32", "float16")
_MOST_NUMBERS = 1 << 40
_BLOCKS = "BlockwiseQuantization"


def kind_of(tensor: Any) -> str:
    """Return the type of a tensor by its name in the schema, in lower case."""
    return type_names()[tensor.type]


def why_no_rows(tensor: Any) -> str:
    """Return the reason why the numbers of a constant are not read, or an empty string."""
    kind, scales = kind_of(tensor), tensor.quantization
    if tensor.sparsity is not None:
        return "its numbers are stored as sparse, expected dense: convert the model without sparsity"
    if kind not in _WHOLE and kind not in _BITS:
        return (
            f"its numbers are {kind}, expected floats or quantised integers of at most 16 bits: convert it to float32"
        )
    if kind in _FLOATS or _is_blockwise(scales):
        return ""
    if scales is None or scales.scale is None or not len(scales.scale):
        return f"its numbers are {kind} without scales, expected float32 or scales: convert it to float32"
    return ""


def numbers_of(model: Any, graph: Any, tensor: Any) -> NDArray[np.float32]:
    """Return the numbers of a constant without a reason of `why_no_rows`, in its shape.

    Args:
        model: the model, of the schema's classes.
        graph: the subgraph that declares the constant.
        tensor: the tensor of the constant.

    Raises:
        ValueError: contents or scales do not have the size of its shape.
    """
    stored = _stored(model, tensor)
    if kind_of(tensor) in _FLOATS:
        return stored.astype(np.float32)
    if _is_blockwise(tensor.quantization):
        scales, zeros = _of_blocks(model, graph, tensor)
    else:
        scales, zeros = _of_axis(tensor)
    # Products of a 24-bit scale and 17 more bits fit float64, so they are rounded once, as in the runtime.
    rows: NDArray[np.float32] = ((stored.astype(np.float64) - zeros) * scales).astype(np.float32)
    return rows


def check_size(model: Any, tensor: Any) -> None:
    """Raise ValueError if the content of a constant does not have the size of its shape."""
    shape, kind = numbers(tensor.shape), kind_of(tensor)
    size = len(model.buffers[tensor.buffer].data)
    count = math.prod(shape)
    if min(shape, default=0) < 0 or count > _MOST_NUMBERS:
        raise ValueError(f"a constant has shape {shape}")
    bits = _BITS.get(kind) or 8 * np.dtype(_WHOLE.get(kind, "V0")).itemsize
    if tensor.sparsity is None and bits and size != -(-count * bits // 8):
        raise ValueError(f"a constant {kind} {shape} has {size:,} bytes")


def held_bytes(model: Any, graph: Any, tensor: Any) -> int:
    """Return the bytes of a constant in a file: its content, scales and zero points."""
    scales, held = tensor.quantization, len(model.buffers[tensor.buffer].data)
    if scales is None:
        return held
    if _is_blockwise(scales):
        return held + sum(len(_content(model, part)) for part in parts_of_blocks(graph, tensor))
    return held + sum(np.asarray(part).nbytes for part in (scales.scale, scales.zeroPoint) if part is not None)


def parts_of_blocks(graph: Any, tensor: Any) -> list[Any]:
    """Return the tensors with scales and zero points of a blockwise constant, or none for other constants."""
    if tensor.quantization is None or not _is_blockwise(tensor.quantization):
        return []
    details = tensor.quantization.details
    found = (number for number in (details.scales, details.zeroPoints) if number > 0 or number == details.scales)
    return [_tensor(graph, number) for number in found]


def _is_blockwise(scales: Any) -> bool:
    return scales is not None and type(scales.details).__name__ == f"{_BLOCKS}T"


def _stored(model: Any, tensor: Any) -> NDArray[Any]:
    content, kind, shape = _content(model, tensor), kind_of(tensor), numbers(tensor.shape)
    if kind in _WHOLE:
        return content.view(_WHOLE[kind]).reshape(shape)
    bits, count = _BITS[kind], math.prod(shape)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)  # the first number has the lowest bits
    parts = (content[:, np.newaxis] >> shifts & (1 << bits) - 1).astype(np.int8)
    return (parts - (parts >> bits - 1 << bits)).reshape(-1)[:count].reshape(shape)


def _of_axis(tensor: Any) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return scales and zero points: of all numbers, or along an axis."""
    scales = np.asarray(tensor.quantization.scale, np.float64)
    given = tensor.quantization.zeroPoint
    zeros = np.zeros(len(scales)) if given is None or not len(given) else np.asarray(given, np.float64)
    if len(zeros) == 1:
        zeros = zeros.repeat(len(scales))
    shape, axis = numbers(tensor.shape), tensor.quantization.quantizedDimension
    if len(scales) != len(zeros) or (len(scales) > 1 and not (0 <= axis < len(shape) and shape[axis] == len(scales))):
        raise ValueError(f"{len(scales):,} scales and {len(zeros):,} zero points for axis {axis} of {shape}")
    if len(scales) == 1:
        return scales[0], zeros[0]
    along = [-1 if at == axis else 1 for at in range(len(shape))]
    return scales.reshape(along), zeros.reshape(along)


def _of_blocks(model: Any, graph: Any, tensor: Any) -> tuple[NDArray[np.float64], Any]:
    """Return scales and zero points of blocks along the last axis."""
    shape, size = numbers(tensor.shape), tensor.quantization.details.blockSize
    if size <= 0 or shape[-1] % size:
        raise ValueError(f"blocks of {size} numbers in {shape}")
    blocks = (*shape[:-1], shape[-1] // size)
    found = []
    for part in parts_of_blocks(graph, tensor):
        values = _stored(model, part).astype(np.float64)
        if values.size not in (1, math.prod(blocks)):
            raise ValueError(f"{values.size:,} scales for {math.prod(blocks):,} blocks")
        found.append(np.broadcast_to(values.reshape(-1), math.prod(blocks)).reshape(blocks).repeat(size, axis=-1))
    return found[0], found[1] if len(found) > 1 else 0.0


def _content(model: Any, tensor: Any) -> NDArray[np.uint8]:
    content = model.buffers[tensor.buffer].data
    return np.asarray(() if content is None else content, np.uint8)


def _tensor(graph: Any, number: int) -> Any:
    if not 0 <= number < len(graph.tensors):
        raise IndexError(f"tensor {number}")
    return graph.tensors[number]
