"""Tables that operators of com.microsoft store in blocks of integers with one scale per block.

    GatherBlockQuantized (data, ids, scales, zero_points)   data [n, ...] of (u)int4, float8, or of 2, 4 or 8 bits in
                                                            uint8
    MatMulNBits (hidden, data, scales, zero_points)         data uint8 [n, blocks, bytes of a block]

A number is (q - zero_point) * scale, in the type of the scale. Bits are packed from the lowest one up. The default zero
point is 2^(bits - 1) for uint8 data and 0 for other types.
"""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto

from edge_embed.compression.onnx.constant_values import Known
from edge_embed.compression.onnx.scopes import Scope
from edge_embed.compression.onnx.table_uses import FLOAT_KINDS, Use, View, from_front, values_of


def gathered_blocks(view: View, scope: Scope, place: int, node: NodeProto) -> Use | None:
    """Return the lookup of a ``GatherBlockQuantized``, if its constants are known."""
    data, scales, zeros = _constants(view, scope, node, (0, 2, 3))
    if data is None or scales is None or scales.kind not in FLOAT_KINDS or len(data.shape) < 2:
        return None
    values = values_of(node)
    rank, bits = len(data.shape), values.get("bits", 4) if data.dtype == "uint8" else 8
    axis, along = (
        from_front(values.get(name, other), rank) for name, other in (("gather_axis", 0), ("quantize_axis", 1))
    )
    shape = (*data.shape[:-1], data.shape[-1] * 8 // bits)
    block = values.get("block_size", 128) or shape[along]
    if min(axis, along) < 0 or len(scales.shape) != rank or bits not in (2, 4, 8):
        return None
    middle = 0 if data.dtype != "uint8" else 2 ** (bits - 1)

    def compute() -> NDArray[Any]:
        stored = _unpacked(data.compute(), bits)
        zero = middle if zeros is None else _unpacked(zeros.compute(), bits)
        return _dequantised(stored, scales.compute(), zero, along, block)

    known = _made(shape, compute, scales.kind, (data, scales, zeros))
    return Use("rows", scope, place, node, known, axis, ids=node.input[1], rule="zeros from -n")


def multiplied_blocks(view: View, scope: Scope, place: int, node: NodeProto) -> Iterator[Use]:
    """Yield the product of a ``MatMulNBits``, if its constants are known."""
    data, scales, zeros = _constants(view, scope, node, (1, 2, 3))
    values, extra = values_of(node), [*node.input[4:5]]
    if data is None or scales is None or any(extra) or scales.kind not in FLOAT_KINDS or len(data.shape) != 3:
        return
    count, dim, bits, block = (
        int(values.get(name, other)) for name, other in (("N", 0), ("K", 0), ("bits", 4), ("block_size", 0))
    )
    blocks = data.shape[1]
    if bits not in (2, 4, 8) or block < 1 or data.shape != (count, -(-dim // block), block * bits // 8):
        return
    if math.prod(scales.shape) != count * blocks or values.get("weight_prepacked", 0):
        return

    def compute() -> NDArray[Any]:
        stored = _unpacked(data.compute().reshape(count, -1), bits)
        zero: Any = 2 ** (bits - 1)
        if zeros is not None:
            given = zeros.compute().reshape(count, -1)
            zero = (_unpacked(given, bits) if given.dtype == np.uint8 else given)[:, :blocks]
        return _dequantised(stored, scales.compute().reshape(count, blocks), zero, 1, block)[:, :dim]

    yield Use("logits", scope, place, node, _made((count, dim), compute, scales.kind, (data, scales, zeros)), 0)


def _constants(view: View, scope: Scope, node: NodeProto, places: Sequence[int]) -> tuple[Known | None, ...]:
    """Return the constants at some inputs; all are None if one of the given inputs is not constant."""
    names = [node.input[place] if place < len(node.input) else "" for place in places]
    found = [view.known(scope, name) for name in names]
    if any(name and known is None for name, known in zip(names, found, strict=True)):
        return (None,) * len(places)
    return tuple(found)


def _made(shape: tuple[int, ...], compute: Any, kind: int, given: Sequence[Known | None]) -> Known:
    parts = [each for each in given if each is not None]
    leaves = dict.fromkeys(leaf for each in parts for leaf in each.leaves)
    return Known(kind, shape, compute, tuple(leaves), frozenset().union(*(each.names for each in parts)))


def _unpacked(array: NDArray[Any], bits: int) -> NDArray[Any]:
    """Unpack numbers of fewer bits from bytes, along the last axis; other types are returned unchanged."""
    if array.dtype != np.uint8 or bits == 8:
        return array
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((array[..., None] >> shifts) & np.uint8(2**bits - 1)).reshape(*array.shape[:-1], -1)


def _dequantised(stored: NDArray[Any], scales: NDArray[Any], zero: Any, axis: int, block: int) -> NDArray[Any]:
    wide = [_over(np.asarray(each, np.float32), stored.shape, axis, block) for each in (zero, scales)]
    with np.errstate(over="ignore", invalid="ignore"):  # numbers that are not finite are refused with their row
        return ((stored.astype(np.float32) - wide[0]) * wide[1]).astype(scales.dtype)


def _over(array: NDArray[np.float32], shape: tuple[int, ...], axis: int, block: int) -> NDArray[np.float32]:
    """Repeat one number per block for each number of the block."""
    if not array.ndim:
        return array
    count = shape[axis]
    return np.take(np.repeat(array, block, axis), np.arange(count), axis) if array.shape[axis] != count else array
