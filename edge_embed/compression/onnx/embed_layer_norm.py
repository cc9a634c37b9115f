"""EmbedLayerNormalization of com.microsoft as standard operators, so that its tables can be packed.

    sum    = word [ids] + position [0 ... length - 1, or given] + segment [segment ids]
    output = LayerNormalization (sum) * gamma + beta
    mask_index = number of ones in each row of the mask, or 0 without a mask

The operator refuses negative ids, but Gather counts them from the end. So they are set to the largest possible id,
which is refused.
"""

from collections.abc import Generator, Iterator
from typing import Any

import numpy as np
from onnx import NodeProto, TensorProto, helper, numpy_helper

from edge_embed.compression.onnx.free_names import Names

_EPSILON = 1e-12
_LARGEST = 2**31 - 1


def written_out(node: NodeProto, names: Names) -> Iterator[NodeProto]:
    """Return the standard nodes that replace a node, in order."""
    return _Writer(node, names).nodes()


class _Writer:
    def __init__(self, node: NodeProto, names: Names) -> None:
        self._node, self._names = node, names
        self._inputs = [*node.input, *[""] * (9 - len(node.input))]
        self._outputs = [*node.output, *[""] * (3 - len(node.output))]

    def nodes(self) -> Iterator[NodeProto]:
        ids, segments, words, places, kinds, gamma, beta, mask, position_ids = self._inputs
        output, mask_index, total = self._outputs
        rows = yield from self._rows(words, ids, "word")
        if not position_ids:
            position_ids = yield from self._positions(ids)
        position_rows = yield from self._rows(places, position_ids, "position")
        has_segments = bool(segments and kinds)
        both = total if total and not has_segments else self._name("embedding_sum")
        yield self._make("Add", [rows, position_rows], both)
        if has_segments:
            segment_rows = yield from self._rows(kinds, segments, "segment")
            before, both = both, total or self._name("embedding_sum")
            yield self._make("Add", [before, segment_rows], both)
        epsilon = next((item.f for item in self._node.attribute if item.name == "epsilon"), _EPSILON)
        given = [both, gamma, beta] if beta else [both, gamma]
        normed = helper.make_node(
            "LayerNormalization", given, [output], self._node.name or None, axis=-1, epsilon=epsilon
        )
        yield normed
        if mask_index:
            yield from self._mask_index(ids, mask, mask_index)

    def _rows(self, table: str, ids: str, what: str) -> Generator[NodeProto, None, str]:
        zero = yield from self._constant(0, f"{what}_zero")
        largest = yield from self._constant(_LARGEST, f"{what}_refused")
        wide, below, safe, rows = (self._name(f"{what}_{part}") for part in ("wide", "below", "ids", "rows"))
        yield self._make("Cast", [ids], wide, to=TensorProto.INT64)
        yield self._make("Less", [wide, zero], below)
        yield self._make("Where", [below, largest, wide], safe)
        yield self._make("Gather", [table, safe], rows, axis=0)
        return rows

    def _positions(self, ids: str) -> Generator[NodeProto, None, str]:
        zero = yield from self._constant(0, "position_0")
        one = yield from self._constant(1, "position_1")
        shape, length, positions = (self._name(f"position_{part}") for part in ("shape", "length", "range"))
        yield self._make("Shape", [ids], shape)
        yield self._make("Gather", [shape, one], length)
        yield self._make("Range", [zero, length, one], positions)
        return positions

    def _mask_index(self, ids: str, mask: str, result: str) -> Iterator[NodeProto]:
        axes = yield from self._constant([1], "mask_axes")
        if mask:
            is_one, counted = self._name("mask_is_one"), self._name("mask_counted")
            one = yield from self._constant(1, "mask_one", np.int32)
            yield self._make("Equal", [mask, one], is_one)
            yield self._make("Cast", [is_one], counted, to=TensorProto.INT32)
        else:
            shape, counted = self._name("mask_shape"), self._name("mask_counted")
            yield self._make("Shape", [ids], shape)
            yield self._make(
                "ConstantOfShape", [shape], counted, value=helper.make_tensor("v", TensorProto.INT32, [1], [0])
            )
        yield self._make("ReduceSum", [counted, axes], result, keepdims=0)

    def _constant(self, number: Any, what: str, dtype: Any = np.int64) -> Generator[NodeProto, None, str]:
        name = self._name(what)
        yield self._make("Constant", [], name, value=numpy_helper.from_array(np.array(number, dtype)))
        return name

    def _name(self, part: str) -> str:
        return self._names.free(f"{self._node.output[0]}.{part}")

    def _make(self, op_type: str, inputs: list[str], result: str, **attributes: Any) -> NodeProto:
        return helper.make_node(op_type, inputs, [result], self._names.free(f"{result}.{op_type}"), **attributes)
