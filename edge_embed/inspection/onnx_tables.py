"""The compressed tables of an ONNX model as its nodes describe them, checked against their tensors."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from onnx import AttributeProto, GraphProto, ModelProto, NodeProto

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import DOMAIN, MEMORY_BYTES
from edge_embed.inspection.onnx_weights import Weights
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.ant_shape import ANTShape
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.floats import FLOAT_BYTES
from edge_embed.packed.form import TableShape, TensorSpec, Use
from edge_embed.packed.manifest import FORMAT_VERSION, located
from edge_embed.packed.tt import PackedTT
from edge_embed.packed.tt_shape import MAX_CORES, MIN_CORES, TTShape

Attributes = Mapping[str, int]
Specs = Mapping[str, TensorSpec]


_DPQ_TENSORS = ("codes", "values", "value_scales")
_OWN_OF_ROWS = ("row_scale_codes", "row_scales")


def _dpq_shape(attributes: Attributes, tensors: Specs) -> TableShape:
    _check_ranks(tensors, {"codes": 2, "values": 3})
    codes, values = tensors["codes"], tensors["values"]
    num_groups, stored = attributes["num_groups"], values.shape[0]
    shared = stored == 1 and num_groups != 1
    dim = values.shape[2] * num_groups
    value_type = "int8" if "value_scales" in tensors else _value_type(values)
    _check_ranks(tensors, {name: 1 for name in _OWN_OF_ROWS if name in tensors})
    num_row_scales = tensors["row_scales"].shape[0] if "row_scales" in tensors else 0
    unused = attributes.get("unused_columns", 0)
    sizes = num_groups, shared, value_type, num_row_scales, unused
    shape = DPQShape(codes.shape[0], dim - unused, attributes["num_codes"], *sizes)
    if attributes["bits"] != shape.bits:
        raise BadInputError(f"bits: got {attributes['bits']}, expected {shape.bits} for {shape.num_codes} codes")
    return shape


def _ant_shape(attributes: Attributes, tensors: Specs) -> TableShape:
    _check_ranks(tensors, {"row_offsets": 1, "weights": 1, "anchors": 2})
    weights, anchors = tensors["weights"], tensors["anchors"]
    num_embeddings, (num_anchors, dim) = tensors["row_offsets"].shape[0] - 1, anchors.shape
    types = (weights.dtype, _value_type(anchors))
    return ANTShape(num_embeddings, dim, num_anchors, weights.shape[0], *types)


def _tt_shape(attributes: Attributes, tensors: Specs) -> TableShape:
    cores = {name: spec for name, spec in tensors.items() if name != "row_order"}
    _check_ranks(cores, dict.fromkeys(cores, 4))
    rows, befores, columns, afters = zip(*(spec.shape for spec in cores.values()), strict=True)
    sizes = attributes["num_embeddings"], rows, columns, (befores[0], *afters)
    return TTShape(*sizes, _value_type(cores["core_0"]), has_row_order="row_order" in tensors)


def plain_shape(shape: TableShape) -> TableShape:
    """That of the table which plain nodes see, where nodes around them add an order or scales of rows."""
    if isinstance(shape, TTShape):
        return replace(shape, has_row_order=False)
    if isinstance(shape, DPQShape):
        dim = shape.embedding_dim + shape.unused_columns
        return replace(shape, embedding_dim=dim, num_row_scales=0, unused_columns=0)
    return shape


def _dpq_tensors(count: int) -> tuple[str, ...]:
    return _DPQ_TENSORS[: max(count, 2)]


def _core_names(count: int) -> tuple[str, ...]:
    return tuple(f"core_{k}" for k in range(min(max(count, MIN_CORES), MAX_CORES)))


def _value_type(spec: TensorSpec) -> str:
    """The type of the rows; any other is left for `check_specs` to refuse by the name of the tensor."""
    return spec.dtype if spec.dtype in FLOAT_BYTES else "float32"


def _check_ranks(tensors: Specs, ranks: Mapping[str, int]) -> None:
    for name, rank in ranks.items():
        if len(tensors[name].shape) != rank:
            raise BadInputError(f"{name}: got shape {list(tensors[name].shape)}, expected {rank} dimensions")


@dataclass(frozen=True)
class _Method:
    name: str
    tensors: Callable[[int], tuple[str, ...]]  # the inputs that make up the table, from how many there are
    attributes: tuple[str, ...]
    shape: Callable[[Attributes, Specs], TableShape]


@dataclass(frozen=True)
class _Node:
    use: Use
    leading: int  # inputs before those of the table
    attributes: tuple[str, ...] = ()


_METHODS = {
    "DPQ": _Method(
        PackedDPQ.method,
        _dpq_tensors,
        ("bits", "num_codes", "num_groups", "padding_idx"),
        _dpq_shape,
    ),
    "DPQScaled": _Method(
        PackedDPQ.method,
        lambda count: _dpq_tensors(count) if count <= 3 else (*_dpq_tensors(count - 2), *_OWN_OF_ROWS),
        ("bits", "num_codes", "num_groups", "padding_idx", "unused_columns"),
        _dpq_shape,
    ),
    "ANT": _Method(
        PackedANT.method,
        lambda count: ("row_offsets", "anchor_ids", "weights", "weight_scale", "anchors"),
        ("padding_idx",),
        _ant_shape,
    ),
    "TT": _Method(
        PackedTT.method,
        _core_names,
        ("num_embeddings", "padding_idx"),
        _tt_shape,
    ),
    "TTOrdered": _Method(
        PackedTT.method,
        lambda count: (*_core_names(count - 1), "row_order"),
        ("num_embeddings", "padding_idx"),
        _tt_shape,
    ),
}
_NODES = {
    "Embedding": _Node("rows", 1),
    "EmbeddingBag": _Node("bag", 3, ("mode", "weighted")),
    "Logits": _Node("logits", 1),
    "TopK": _Node("topk", 2, ("k", "biased")),
}

_RENAMED = "onnx.compose renamed it: give add_prefix rename_functions=False, and merge_models no prefix"
OPERATORS = {f"{method}{suffix}": (_METHODS[method], _NODES[suffix]) for method in _METHODS for suffix in _NODES}


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
        nodes: Of each node, its use, and how many bytes a session may take for it; None: what is usual.
    """

    name: str
    method: str
    shape: TableShape | None
    padding_idx: int | None
    initializers: Mapping[str, str]
    nodes: tuple[tuple[Use, int | None], ...] = field(default=(), compare=False)

    @property
    def session_bytes(self) -> int:
        """Bytes that a session takes at most beside the table, to be faster."""
        shape = self.shape
        return sum(shape.session_bytes(*node) for node in self.nodes) if shape is not None else 0


def nodes_of(model: ModelProto) -> list[NodeProto]:
    """Our nodes, also those in branches, loops and functions of other tools.

    Our own functions call our own nodes too, on whatever table they are given.
    """
    found = list(_walk(model.graph))
    for function in model.functions:
        if function.domain != DOMAIN:
            found += [inner for node in function.node for inner in _walk_node(node)]
    return [node for node in found if node.domain == DOMAIN]


def called_by_bodies(model: ModelProto) -> set[str]:
    """Types of our nodes that our own functions call: the bodies of the other uses look rows up."""
    ours = [node for function in model.functions if function.domain == DOMAIN for node in function.node]
    return {inner.op_type for node in ours for inner in _walk_node(node) if inner.domain == DOMAIN}


def tables_of_nodes(nodes: list[NodeProto], weights: Weights) -> dict[str, OnnxTable]:
    """The tables that nodes use, by name.

    Raises:
        BadInputError: A node is not what any version of this package writes, or does not fit its tensors.
    """
    found: dict[str, OnnxTable] = {}
    for node in nodes:
        with located(f"node {node.name!r:.80} ({node.op_type:.80})"):
            table = _table(node, weights)
        known = found.get(table.name, replace(table, nodes=()))
        if known != table:
            raise BadInputError(f"table {table.name!r:.80}: two nodes describe it differently: export it again")
        found[table.name] = replace(known, nodes=(*known.nodes, *table.nodes))
    return found


def _table(node: NodeProto, weights: Weights) -> OnnxTable:
    if node.op_type not in OPERATORS:
        remedy = _RENAMED if node.op_type.endswith(tuple(OPERATORS)) else "a newer edge-embed may read it"
        raise BadInputError(f"got operator {node.op_type!r:.80}, expected one of {', '.join(OPERATORS)}: {remedy}")
    method, form = OPERATORS[node.op_type]
    attributes = _attributes(node, method.attributes + form.attributes)
    tensors = method.tensors(len(node.input) - form.leading)
    if len(node.input) != form.leading + len(tensors):
        raise BadInputError(f"got {len(node.input)} inputs, expected {form.leading + len(tensors)}")
    initializers = dict(zip(tensors, node.input[form.leading :], strict=True))
    first = tensors[0]
    name = initializers[first].removesuffix(f".{first}")
    specs = {tensor: weights.spec(stored) for tensor, stored in initializers.items()}
    padding_idx = None if attributes["padding_idx"] == -1 else attributes["padding_idx"]
    known = {tensor: spec for tensor, spec in specs.items() if spec is not None}
    shape = method.shape(attributes, known) if len(known) == len(specs) else None
    if shape is not None and padding_idx is not None and not 0 <= padding_idx < shape.num_embeddings:
        raise BadInputError(f"padding_idx: got {padding_idx}, expected -1 to {shape.num_embeddings - 1}")
    return OnnxTable(name, method.name, shape, padding_idx, initializers, ((form.use, _memory(attributes)),))


def _memory(attributes: Attributes) -> int | None:
    given = attributes.get(MEMORY_BYTES)
    if given is not None and given < 0:
        raise BadInputError(f"{MEMORY_BYTES}: got {given}, expected at least 0")
    return given


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
