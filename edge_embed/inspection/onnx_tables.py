"""Compressed tables of an ONNX model as its nodes describe them, checked against their tensors."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from edge_embed.errors import BadInputError, located
from edge_embed.exporters.onnx.names import DOMAIN, MEMORY_BYTES
from edge_embed.exporters.onnx.nodes.entmax import ACTIVATIONS
from edge_embed.exporters.onnx.nodes.schema import USES, Attributes, NodeSchema
from edge_embed.exporters.onnx.session_memory.method import session_bytes
from edge_embed.inspection.onnx_weights import Weights
from edge_embed.methods import Collected, Parts
from edge_embed.packed.manifest import FORMAT_VERSION
from edge_embed.packed.packed_form import TableShape, TensorSpec, Use

_RENAMED = "onnx.compose renamed it: pass rename_functions=False to add_prefix, and no prefix to merge_models"

OPERATORS: Collected[str, tuple[str, NodeSchema, Use]] = Collected(
    lambda: (
        (f"{schema.prefix}{form.suffix}", (method, schema, use))
        for method, schemas in Parts[tuple[NodeSchema, ...]]("nodes").items()
        for schema in schemas
        for use, form in USES.items()
    )
)


@dataclass(frozen=True)
class OnnxTable:
    """One table as a node uses it.

    Attributes:
        name: Prefix of the names of its tensors.
        method: ``dpq``, ...
        shape: From the node's attributes and the shapes of its tensors, not yet checked against all of them
            (`check_specs`); None if a tensor is no initializer.
        padding_idx: The row that is exactly zero, or None.
        initializers: Name in the model of each tensor.
        nodes: Use of each node, and its limit of session memory in bytes; None for the default.
    """

    name: str
    method: str
    shape: TableShape | None
    padding_idx: int | None
    initializers: Mapping[str, str]
    nodes: tuple[tuple[Use, int | None], ...] = field(default=(), compare=False)

    @property
    def session_bytes(self) -> int:
        """Return the most session memory of the table."""
        if self.shape is None:
            return 0
        return sum(session_bytes(self.method, self.shape, use, limit) for use, limit in self.nodes)


def nodes_of(model: ModelProto) -> list[NodeProto]:
    """Return our nodes, including those in branches, loops and functions of other tools.

    Nodes inside our own functions are left out, because they serve every table.
    """
    found = list(_walk(model.graph))
    for function in model.functions:
        if function.domain != DOMAIN:
            found += [inner for node in function.node for inner in _walk_node(node)]
    return [node for node in found if node.domain == DOMAIN]


def called_by_bodies(model: ModelProto) -> set[str]:
    """Return types of our nodes that our own functions call: the bodies of other uses look up rows."""
    ours = [node for function in model.functions if function.domain == DOMAIN for node in function.node]
    return {inner.op_type for node in ours for inner in _walk_node(node) if inner.domain == DOMAIN}


def tables_of_nodes(nodes: list[NodeProto], weights: Weights) -> dict[str, OnnxTable]:
    """Return the tables that nodes use, by name; nodes of sparse activations use none.

    Raises:
        BadInputError: A node is not from any version of this package, or does not fit its tensors.
    """
    found: dict[str, OnnxTable] = {}
    for node in nodes:
        with located(f"node {node.name!r:.80} ({node.op_type:.80})"):
            if node.op_type in ACTIVATIONS:
                _attributes(node, ACTIVATIONS[node.op_type].attribute_names)
                continue
            table = _table(node, weights)
        known = found.get(table.name, replace(table, nodes=()))
        if known != table:
            raise BadInputError(f"table {table.name!r:.80}: two nodes describe it differently: export it again")
        found[table.name] = replace(known, nodes=(*known.nodes, *table.nodes))
    return found


def _table(node: NodeProto, weights: Weights) -> OnnxTable:
    if node.op_type not in OPERATORS:
        remedy = _RENAMED if node.op_type.endswith(tuple(OPERATORS)) else "try a newer edge-embed"
        raise BadInputError(
            f"got operator {node.op_type!r:.80}, expected one of {', '.join((*OPERATORS, *ACTIVATIONS))}: {remedy}"
        )
    method, schema, use = OPERATORS[node.op_type]
    attributes = _attributes(node, schema.attribute_names + USES[use].attribute_names)
    leading = len(USES[use].inputs)
    tensors = schema.tensors(len(node.input) - leading)
    if len(node.input) != leading + len(tensors):
        raise BadInputError(f"got {len(node.input)} inputs, expected {leading + len(tensors)}")
    initializers = dict(zip(tensors, node.input[leading:], strict=True))
    first = tensors[0]
    name = initializers[first].removesuffix(f".{first}")
    specs = {tensor: weights.spec(stored) for tensor, stored in initializers.items()}
    padding_idx = None if attributes["padding_idx"] == -1 else attributes["padding_idx"]
    known = {tensor: spec for tensor, spec in specs.items() if spec is not None}
    shape = schema.shape(attributes, known) if len(known) == len(specs) else None
    if shape is not None and padding_idx is not None and not 0 <= padding_idx < shape.num_embeddings:
        raise BadInputError(f"padding_idx: got {padding_idx}, expected -1 to {shape.num_embeddings - 1}")
    return OnnxTable(name, method, shape, padding_idx, initializers, ((use, _memory(attributes)),))


def _memory(attributes: Attributes) -> int | None:
    given = attributes.get(MEMORY_BYTES)
    if given is not None and given < 0:
        raise BadInputError(f"{MEMORY_BYTES}: got {given}, expected at least 0")
    return given


def check_specs(got: Mapping[str, TensorSpec], shape: TableShape) -> None:
    """Refuse tensors whose type or shape differs from the table's."""
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
    missing += [item.name for item in node.attribute if item.name == MEMORY_BYTES and item.name not in stored]
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
