"""Shapes of the outputs of Scan bodies: ONNX Runtime requires them, and infers none behind kernels of our nodes."""

from collections.abc import Iterable

from onnx import ModelProto, NodeProto, shape_inference

from edge_embed.compression.onnx.scopes import graphs_of, is_standard, walk
from edge_embed.compression.onnx.without_weights import without_weights


def declare_scan_shapes(model: ModelProto) -> None:
    """Add the shapes that onnx infers to outputs of Scan bodies that have none, before tables are replaced."""
    if not any(is_standard(node, "Scan") for node in walk(model.graph.node)):
        return
    try:
        known = shape_inference.infer_shapes(without_weights(model))
    except Exception:  # any exception of shape inference; outputs then stay as they are
        return
    _declare(model.graph.node, known.graph.node)


def _declare(nodes: Iterable[NodeProto], known: Iterable[NodeProto]) -> None:
    for node, same in zip(nodes, known, strict=True):
        for graph, inferred in zip(graphs_of(node), graphs_of(same), strict=True):
            _declare(graph.node, inferred.node)
            for output, found in zip(graph.output, inferred.output, strict=True) if is_standard(node, "Scan") else ():
                if not output.type.tensor_type.HasField("shape"):
                    output.type.CopyFrom(found.type)
