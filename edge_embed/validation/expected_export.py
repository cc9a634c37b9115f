"""The contents of an export, built again in memory: nodes, bodies, and every stored tensor.

The memory is that of an export: tables and weights are referenced, and arrays that the exporter folds or transposes are
held as well.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import onnx_ir as ir
from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

from edge_embed.exporters.exported import metadata_of
from edge_embed.exporters.onnx.export import build_model
from edge_embed.exporters.onnx.model_file import dtype_name
from edge_embed.exporters.onnx.names import DOMAIN, MEMORY_BYTES
from edge_embed.exporters.onnx.storage import tensor_bytes
from edge_embed.lowering.graph import LoweredProgram
from edge_embed.packed.packed_form import TensorSpec

_STANDARD = ("", "ai.onnx")  # two names of one domain
_LISTS_WEIGHTS = 3  # the last IR version that lists weights as inputs


class Stored(NamedTuple):
    """Type, shape and bytes of a stored tensor."""

    spec: TensorSpec
    content: memoryview


class Port(NamedTuple):
    """An input or output; a dynamic size is its name, or empty without a name."""

    name: str
    dtype: str
    sizes: tuple[int | str, ...]


@dataclass(frozen=True)
class Structure:
    """A model without its tensors.

    Attributes:
        nodes: nodes of the graph, in order.
        bodies: functions of our domain, by name.
        functions: domain and name of all functions.
        opsets: versions by domain.
        ir_version: version of the format.
        inputs: inputs of the graph.
        outputs: outputs of the graph.
    """

    nodes: tuple[NodeProto, ...]
    bodies: Mapping[str, FunctionProto]
    functions: frozenset[tuple[str, str]]
    opsets: Mapping[str, int]
    ir_version: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]


@dataclass(frozen=True)
class Written:
    """The contents of an export.

    Attributes:
        structure: nodes and bodies.
        tensors: tensors outside of compressed tables, by name.
        table_tensors: names of the tensors of tables.
        metadata: texts by key.
    """

    structure: Structure
    tensors: Mapping[str, Stored]
    table_tensors: frozenset[str]
    metadata: Mapping[str, str]


def written_by_export(lowered: LoweredProgram, found: ModelProto) -> Written:
    """Build the contents of an export of a program, with the session memory that the nodes of a file allow.

    Raises:
        BadInputError: the program cannot be exported.
    """
    model = build_model(lowered, _memory_bytes(found.graph.node))
    tables = frozenset(lowered.stored_names())
    weights = {str(name): value.const_value for name, value in model.graph.initializers.items()}
    tensors = {
        name: Stored(_spec(tensor), tensor_bytes(tensor))
        for name, tensor in weights.items()
        if tensor is not None and name not in tables
    }
    model.graph.initializers.clear()  # otherwise they are copied into the structure
    return Written(structure_of(ir.to_proto(model)), tensors, tables, metadata_of(lowered))


def structure_of(model: ModelProto) -> Structure:
    """Return the structure of a model."""
    graph: GraphProto = model.graph
    weights = {tensor.name for tensor in graph.initializer}
    return Structure(
        tuple(graph.node),
        {body.name: body for body in model.functions if body.domain == DOMAIN},
        frozenset((body.domain, body.name) for body in model.functions),
        {"" if item.domain in _STANDARD else item.domain: item.version for item in model.opset_import},
        model.ir_version,
        # IR 3 lists all weights as inputs; since IR 4 a listed weight is one that a caller may replace.
        tuple(_port(value) for value in graph.input if model.ir_version > _LISTS_WEIGHTS or value.name not in weights),
        tuple(map(_port, graph.output)),
    )


def _spec(tensor: ir.TensorProtocol) -> TensorSpec:
    return TensorSpec(dtype_name(int(tensor.dtype)), tuple(map(int, tensor.shape.numpy())))


def _port(value: ValueInfoProto) -> Port:
    kind = value.type.tensor_type
    sizes = (size.dim_value if size.HasField("dim_value") else size.dim_param for size in kind.shape.dim)
    return Port(value.name, dtype_name(kind.elem_type), tuple(sizes))


def _memory_bytes(nodes: Iterable[NodeProto]) -> int | None:
    """Return the limit that `export` was given; a node with another limit then counts as a difference."""
    own = (item for node in nodes if node.domain == DOMAIN for item in node.attribute)
    return next((item.i for item in own if item.name == MEMORY_BYTES and item.i >= 0), None)
