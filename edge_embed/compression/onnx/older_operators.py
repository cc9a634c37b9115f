"""Operators of older sets that onnx's converter mistakes for newer ones with other results.

- Hardmax before 13: along all axes from one on, as one axis.
- Resize and Upsample before 11: pixels are at their corners; in later sets at their centres.
- Scan before 9: of a batch.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from edge_embed.compression.onnx.free_names import Names
from edge_embed.compression.onnx.scopes import graphs_of, is_standard, spelled, walk
from edge_embed.compression.onnx.table_uses import values_of
from edge_embed.errors import BadInputError

_FLAT_HARDMAX, _CENTRES, _RESIZE, _SCAN = 13, 11, 10, 9  # the operator sets in which they got their present meaning


def write_as_newer(model: ModelProto, opset: int) -> None:
    """Replace nodes of older meaning by equivalent ones, before the model is converted.

    Raises:
        BadInputError: a node has no equivalent.
    """
    scans = [node for node in walk(model.graph.node) if is_standard(node, "Scan")] if opset < _SCAN else []
    if scans:
        raise BadInputError(
            f"opset: got {opset}, whose Scan is batched, unlike later ones ({spelled(scans[0])}): export the "
            f"model with opset {_SCAN} or later"
        )
    if opset < _FLAT_HARDMAX and any(is_standard(node, "Hardmax") for node in walk(model.graph.node)):
        _write_hardmax(model.graph, Names(model))


def keep_corners(model: ModelProto, opset: int) -> None:
    """Set the pixel positions of each ``Resize`` in a converted model to those of the original operator set.

    Raises:
        BadInputError: a node rounds up when it shrinks and down when it grows, which no later operator does.
    """
    resizes = [node for node in walk(model.graph.node) if is_standard(node, "Resize")] if opset < _CENTRES else []
    constants = dict(_constants(model)) if resizes else {}
    for node in resizes:
        nearest = (
            "floor"
            if opset < _RESIZE or values_of(node).get("mode", b"nearest") != b"nearest"
            else _rounding(node, constants)
        )
        added = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": nearest}
        kept = [item for item in node.attribute if item.name not in added]
        del node.attribute[:]
        node.attribute.extend([*kept, *(helper.make_attribute(*item) for item in added.items())])


def _rounding(node: NodeProto, constants: Mapping[str, NDArray[Any]]) -> str:
    scales = constants.get(node.input[2])
    if scales is None or (np.any(scales < 1) and np.any(scales > 1)):
        sizes = "sizes are not constant" if scales is None else f"scales {scales.tolist()}"
        raise BadInputError(
            f"opset: got {_RESIZE}, whose Resize rounds up when it shrinks and down when it enlarges "
            f"({spelled(node)}, {sizes:.200}): export the model with opset {_CENTRES} or later"
        )
    return "ceil" if np.any(scales < 1) else "floor"


def _constants(model: ModelProto) -> Iterator[tuple[str, NDArray[Any]]]:
    """Yield the small constants of a model without weights, by name."""
    for tensor in model.graph.initializer:
        yield tensor.name, numpy_helper.to_array(tensor)
    for node in walk(model.graph.node):
        for item in node.attribute if is_standard(node, "Constant") else ():
            if item.name == "value":
                yield node.output[0], numpy_helper.to_array(item.t)


def _write_hardmax(graph: GraphProto, names: Names) -> None:
    nodes: list[NodeProto] = []
    for node in graph.node:
        for inner in graphs_of(node):
            _write_hardmax(inner, names)
        nodes += (
            _flat(node, names) if is_standard(node, "Hardmax") else [NodeProto.FromString(node.SerializeToString())]
        )
    del graph.node[:]
    graph.node.extend(nodes)


def _flat(node: NodeProto, names: Names) -> Iterator[NodeProto]:
    (given,), (result,) = node.input, node.output
    flat, hard, shape = (names.free(f"{result}.{name}") for name in ("flat", "hard", "shape"))
    yield helper.make_node("Flatten", [given], [flat], axis=values_of(node).get("axis", 1))
    yield helper.make_node("Hardmax", [flat], [hard], node.name or None, axis=1)
    yield helper.make_node("Shape", [given], [shape])
    yield helper.make_node("Reshape", [hard, shape], [result])
