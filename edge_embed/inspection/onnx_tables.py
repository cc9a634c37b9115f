"""The compressed tables of an ONNX model as its nodes describe them, checked against their tensors."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import DOMAIN
from edge_embed.inspection.onnx_weights import Weights
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.form import TableShape, TensorSpec
from edge_embed.packed.manifest import FORMAT_VERSION, located

Attributes = Mapping[str, int]


def _dpq_shape(attributes: Attributes, tensors: Mapping[str, TensorSpec]) -> TableShape:
    codes, values = tensors["codes"], tensors["values"]
    if len(codes.shape) != 2 or len(values.shape) != 3:
        raise BadInputError(f"got codes {list(codes.shape)} and values {list(values.shape)}")
    num_groups, stored = attributes["num_groups"], values.shape[0]
    shared = stored == 1 and num_groups != 1
    shape = DPQShape(codes.shape[0], values.shape[2] * num_groups, attributes["num_codes"], num_groups, shared)
    if attributes["bits"] != shape.bits:
        raise BadInputError(f"bits: got {attributes['bits']}, expected {shape.bits} for {shape.num_codes} codes")
    return shape


@dataclass(frozen=True)
class _Operator:
    method: str
    tensors: tuple[str, ...]  # the inputs that follow ids
    attributes: tuple[str, ...]
    shape: Callable[[Attributes, Mapping[str, TensorSpec]], TableShape]


OPERATORS = {
    "DPQEmbedding": _Operator(
        PackedDPQ.method, ("codes", "values"), ("bits", "num_codes", "num_groups", "padding_idx"), _dpq_shape
    ),
}


@dataclass(frozen=True)
class OnnxTable:
    """One table as a node uses it.

    Attributes:
        name: What the names of its tensors begin with.
        method: ``dpq``, ...
        shape: From the node's attributes and the shapes of its tensors, not yet checked against all of them
            (`check_specs`); None where a tensor is no initializer.
        padding_idx: The row that is exactly zero, or None.
        initializers: Name in the model of each tensor.
    """

    name: str
    method: str
    shape: TableShape | None
    padding_idx: int | None
    initializers: Mapping[str, str]


def nodes_of(model: ModelProto) -> list[NodeProto]:
    """Our nodes, also those in branches, loops and functions of other tools."""
    found = list(_walk(model.graph))
    for function in model.functions:
        found += [inner for node in function.node for inner in _walk_node(node)]
    return [node for node in found if node.domain == DOMAIN]


def tables_of_nodes(nodes: list[NodeProto], weights: Weights) -> dict[str, OnnxTable]:
    """The tables that nodes use, by name.

    Raises:
        BadInputError: A node is not what any version of this package writes, or does not fit its tensors.
    """
    found: dict[str, OnnxTable] = {}
    for node in nodes:
        with located(f"node {node.name!r:.80} ({node.op_type:.80})"):
            table = _table(node, weights)
        known = found.setdefault(table.name, table)
        if known != table:
            raise BadInputError(f"table {table.name!r:.80}: two nodes describe it differently: export it again")
    return found


def _table(node: NodeProto, weights: Weights) -> OnnxTable:
    if node.op_type not in OPERATORS:
        expected = f"expected one of {', '.join(OPERATORS)}: a newer edge-embed may read it"
        raise BadInputError(f"got operator {node.op_type!r:.80}, {expected}")
    operator = OPERATORS[node.op_type]
    attributes = _attributes(node, operator.attributes)
    if len(node.input) != 1 + len(operator.tensors):
        raise BadInputError(f"got {len(node.input)} inputs, expected {1 + len(operator.tensors)}")
    initializers = dict(zip(operator.tensors, node.input[1:], strict=True))
    first = operator.tensors[0]
    name = initializers[first].removesuffix(f".{first}")
    specs = {tensor: weights.spec(stored) for tensor, stored in initializers.items()}
    padding_idx = None if attributes["padding_idx"] == -1 else attributes["padding_idx"]
    known = {tensor: spec for tensor, spec in specs.items() if spec is not None}
    shape = operator.shape(attributes, known) if len(known) == len(specs) else None
    if shape is not None and padding_idx is not None and not 0 <= padding_idx < shape.num_embeddings:
        raise BadInputError(f"padding_idx: got {padding_idx}, expected -1 to {shape.num_embeddings - 1}")
    return OnnxTable(name, operator.method, shape, padding_idx, initializers)


def check_specs(got: Mapping[str, TensorSpec], shape: TableShape) -> None:
    """Refuse tensors whose type or shape is not what the table needs."""
    for tensor, expected in shape.tensor_specs().items():
        if got[tensor] != expected:
            raise BadInputError(
                f"{tensor}: got {got[tensor].dtype} {list(got[tensor].shape)}, expected {expected.dtype} "
                f"{list(expected.shape)}"
            )


def _attributes(node: NodeProto, names: tuple[str, ...]) -> Attributes:
    stored = {item.name: item.i for item in node.attribute if item.type == AttributeProto.INT}
    version = stored.get("format_version")
    if version != FORMAT_VERSION:
        remedy = "upgrade edge-embed" if (version or 0) > FORMAT_VERSION else "export the model again"
        raise BadInputError(f"format_version: got {version}, expected {FORMAT_VERSION}: {remedy}")
    missing = [name for name in names if name not in stored]
    if missing:
        raise BadInputError(f"got no integer attribute {missing[0]}: export the model again")
    return stored


def _walk(graph: GraphProto) -> Iterator[NodeProto]:
    for node in graph.node:
        yield from _walk_node(node)


def _walk_node(node: NodeProto) -> Iterator[NodeProto]:
    yield node
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            yield from _walk(graph)
