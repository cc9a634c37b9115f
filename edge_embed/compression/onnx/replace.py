"""Packed tables in place of the dense ones of an ONNX file: their nodes, tensors, bodies and manifest."""

from collections.abc import Iterator, Mapping

import numpy as np
from onnx import GraphProto, ModelProto, NodeProto, helper, numpy_helper

from edge_embed.compression.onnx.dense_tables import OnnxTable, in_file
from edge_embed.compression.onnx.free_names import Names
from edge_embed.compression.onnx.inlining import unmarked
from edge_embed.compression.onnx.replacement import Replacement
from edge_embed.compression.onnx.scan_shapes import declare_scan_shapes
from edge_embed.compression.onnx.scopes import OVERRIDABLE_FROM_IR, Scope, walk
from edge_embed.compression.onnx.unused import drop_idle, drop_unused
from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.bodies import OPERATORS, Body, check_count, needed_bodies
from edge_embed.exporters.onnx.method import OnnxOperator
from edge_embed.exporters.onnx.names import DOMAIN, DOMAIN_VERSION, MANIFEST_KEY
from edge_embed.exporters.onnx.nodes.entmax import ACTIVATIONS
from edge_embed.fitting.fitted_table import Stored
from edge_embed.packed.manifest import parse_manifest, write_manifest
from edge_embed.packed.stored_names import stored_name

_LEAST_IR = 8  # the first version with functions


def replace_tables(model: ModelProto, opset: int, tables: Mapping[OnnxTable, Stored]) -> dict[str, str]:
    """Replace dense tables of a model by packed ones.

    Args:
        model: the model of the tables.
        opset: version of its standard operators, at least that of our functions.
        tables: the stored form, of the same n and d, of tables that can be replaced.

    Returns:
        The names of the packed tables in the manifest, by name of the dense one.

    Raises:
        BadInputError: tables of one method differ in the number of their tensors, or the model has functions or
            tables of another release of edge-embed.
    """
    used = in_file(tables, model)
    declare_scan_shapes(model)
    names, before = Names(model), metadata_of(model, MANIFEST_KEY)
    known = set() if before is None else set(parse_manifest(before, 0).tables)
    named: dict[str, Stored] = {}
    packed_names: dict[str, str] = {}
    nodes: dict[Scope, dict[int, list[NodeProto]]] = {}
    for table, stored in tables.items():
        name = names.free_table(table.name, stored.arrays(), known | named.keys())
        named[name], packed_names[table.name] = stored, name
        made = Replacement(names, table, name, stored)
        for use in sorted(used[table].used, key=lambda use: use.place):
            nodes.setdefault(use.scope, {})[use.place] = list(made.nodes(use))
    for scope in sorted(nodes, key=lambda scope: -scope.depth):  # inner graphs first: outer nodes are copied
        _put_in(scope.graph, nodes[scope])
    free = {name for table in used.values() for use in table.used for _, name in use.names}
    drop_idle(model, free)
    drop_unused(model, free)
    _keep_constants(model)
    _add_tensors(model, named)
    _add_bodies(model, opset)
    set_metadata(model, MANIFEST_KEY, write_manifest({name: stored.plain for name, stored in named.items()}, before))
    unmarked(model)
    return packed_names


def _put_in(graph: GraphProto, made: Mapping[int, list[NodeProto]]) -> None:
    nodes = [new for place, node in enumerate(graph.node) for new in made.get(place, [node])]
    kept = [NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(kept)


def _keep_constants(model: ModelProto) -> None:
    """Before IR 4, remove constants from the inputs: later versions treat an initializer among them as variable."""
    if model.ir_version >= OVERRIDABLE_FROM_IR:
        return
    constants = {tensor.name for tensor in model.graph.initializer}
    for place in reversed(range(len(model.graph.input))):
        if model.graph.input[place].name in constants:
            del model.graph.input[place]


def _add_tensors(model: ModelProto, tables: Mapping[str, Stored]) -> None:
    for name, stored in tables.items():
        for key, array in stored.arrays().items():
            model.graph.initializer.append(numpy_helper.from_array(np.ascontiguousarray(array), stored_name(name, key)))


def _add_bodies(model: ModelProto, opset: int) -> None:
    """Add the missing functions: a file with packed tables already has some."""
    there = {function.name: function for function in model.functions if function.domain == DOMAIN}
    for operator, count in needed_bodies(_nodes_of_ours(model)):
        if operator.op_type in there:
            check_count(operator, count, len(there[operator.op_type].input) - operator.num_leading)
        else:
            model.functions.append(operator.function(count, opset=opset))
    model.ir_version = max(model.ir_version, _LEAST_IR)
    _import_ours(model, bool(there))


def _import_ours(model: ModelProto, has_functions: bool) -> None:
    version = next((int(item.version) for item in model.opset_import if item.domain == DOMAIN), None)
    if has_functions and version is not None and version != DOMAIN_VERSION:
        raise BadInputError(
            f"got version {version} of the operators {DOMAIN}, expected {DOMAIN_VERSION}: use the release of the file"
        )
    others = [item for item in model.opset_import if item.domain != DOMAIN]
    del model.opset_import[:]
    model.opset_import.extend([*others, helper.make_opsetid(DOMAIN, DOMAIN_VERSION)])


def _nodes_of_ours(model: ModelProto) -> Iterator[Body]:
    for node in walk(model.graph.node):
        if node.domain == DOMAIN and node.op_type not in ACTIVATIONS:  # which have their bodies already
            operator = _operator(node)
            yield operator, len(node.input) - operator.num_leading


def _operator(node: NodeProto) -> OnnxOperator:
    if node.op_type not in OPERATORS:
        raise BadInputError(f"{DOMAIN}::{node.op_type}: unknown to this release: use the release of the file")
    return OPERATORS[node.op_type]


def metadata_of(model: ModelProto, key: str) -> str | None:
    """Return a metadata text of a model, or None."""
    return next((item.value for item in model.metadata_props if item.key == key), None)


def set_metadata(model: ModelProto, key: str, text: str) -> None:
    """Set a metadata text of a model."""
    for item in model.metadata_props:
        if item.key == key:
            item.value = text
            return
    model.metadata_props.add(key=key, value=text)
