"""Values of a graph that are known before it runs: a session computes them at its creation."""

from collections.abc import Collection

from onnx import AttributeProto, GraphProto, NodeProto, ValueInfoProto

_OF_SHAPES = ("Shape", "Size")


def constant_values(graph: GraphProto, given: Collection[str], around: Collection[str] = ()) -> set[str]:
    """Return constants, values that follow from them alone, and the shapes of values of fixed size.

    Args:
        graph: a graph, or the body of a branch or loop.
        given: inputs for which a caller may supply another value in place of a constant.
        around: constants of the outer graphs.
    """
    held = (*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer))
    known = {*around, *(tensor.name for tensor in held if tensor.name not in given)}
    fixed = {value.name for value in (*graph.input, *graph.value_info) if _has_fixed_size(value)}
    for node in graph.node:
        if set(filter(None, node.input)) <= (known | fixed if node.op_type in _OF_SHAPES else known):
            known.update(() if _has_graphs(node) else node.output)
    return known


def _has_fixed_size(value: ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    return tensor.HasField("shape") and all(size.HasField("dim_value") for size in tensor.shape.dim)


def _has_graphs(node: NodeProto) -> bool:
    return any(item.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for item in node.attribute)
