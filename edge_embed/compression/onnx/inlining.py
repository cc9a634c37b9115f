"""Inlining of functions, and of EmbedLayerNormalization, which hide lookups inside one node.

Each new node is marked with its origin, so that a second pass inlines only the origins of the chosen tables.
"""

from collections.abc import Collection, Mapping, Sequence

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, inliner

from edge_embed.compression.onnx.embed_layer_norm import written_out
from edge_embed.compression.onnx.free_names import Names
from edge_embed.compression.onnx.functions import Name, by_depth, give_defaults
from edge_embed.compression.onnx.scopes import STANDARD, graphs_of, walk
from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import DOMAIN

_ORIGIN = f"{DOMAIN}.origin"
_LOOKUPS = "Gather GatherND GatherElements GatherBlockQuantized MatMul Gemm MatMulNBits EmbedLayerNormalization".split()


def origin(node: NodeProto) -> str:
    """Return the origin of an inlined node, or an empty string for a node of the file."""
    return next((item.value for item in node.metadata_props if item.key == _ORIGIN), "")


def hidden_lookups(model: ModelProto) -> set[str]:
    """Return what may hold lookups inside one node: functions, by name, and nodes, by their first output."""
    functions = {_called(one): one for one in model.functions if not one.domain.startswith(DOMAIN)}
    found = {name for name, one in functions.items() if any(node.op_type in _LOOKUPS for node in walk(one.node))}
    found = _with_callers(found, functions)
    return found | {_output(node) for node in walk(model.graph.node) if _is_embed(node)}


def write_out(model: ModelProto, wanted: Collection[str]) -> None:
    """Inline functions and nodes in a model, given by names of `hidden_lookups`."""
    functions = {_called(one): one for one in model.functions}
    chosen = _with_callers({name for name in wanted if name in functions}, functions)
    for name in sorted(chosen):
        for node in walk(functions[name].node):
            _mark(node, name)
    inline(model, [functions[name] for name in sorted(chosen)])
    _write_out_nodes(model, model.graph, wanted, Names(model))


def inline(model: ModelProto, functions: Sequence[FunctionProto]) -> None:
    """Inline functions of a model at their calls, in the operator set of the model, as ONNX Runtime does.

    Raises:
        BadInputError: onnx cannot inline them.
    """
    opset = next((item.version for item in model.opset_import if item.domain in STANDARD), 0)
    for one in model.functions if functions else ():
        for item in one.opset_import:
            if item.domain in STANDARD:
                item.version = opset
    for names in by_depth(functions):
        _inline(model, names)


def _inline(model: ModelProto, names: list[Name]) -> None:
    try:
        give_defaults(model, names)
        model.CopyFrom(inliner.inline_selected_functions(model, names))
    except Exception as error:  # any exception of onnx
        shown = ", ".join(name for _, name in names)
        raise BadInputError(
            f"functions {shown:.200}: cannot be inlined: {error!s:.200}: inline them (onnx.inliner) and compress the "
            "result"
        ) from error


def unmarked(model: ModelProto) -> None:
    """Remove the marks of `write_out` from nodes."""
    for node in walk(model.graph.node):
        kept = [item for item in node.metadata_props if item.key != _ORIGIN]
        if len(kept) < len(node.metadata_props):
            del node.metadata_props[:]
            node.metadata_props.extend(kept)


def _write_out_nodes(model: ModelProto, graph: GraphProto, wanted: Collection[str], names: Names) -> None:
    for node in graph.node:
        for inner in graphs_of(node):
            _write_out_nodes(model, inner, wanted, names)
    if not any(_is_embed(node) for node in graph.node):
        return
    nodes: list[NodeProto] = []
    for node in graph.node:
        marked = origin(node)
        if not _is_embed(node) or not (marked or _output(node) in wanted):
            nodes.append(NodeProto.FromString(node.SerializeToString()))
            continue
        for made in written_out(node, names):
            _mark(made, marked or _output(node))
            nodes.append(made)
    del graph.node[:]
    graph.node.extend(nodes)


def _is_embed(node: NodeProto) -> bool:
    return node.domain == "com.microsoft" and node.op_type == "EmbedLayerNormalization"


def _output(node: NodeProto) -> str:
    return f"node {node.output[0]}"


def _called(function: FunctionProto) -> str:
    return f"function {function.domain}:{function.name}"


def _mark(node: NodeProto, where: str) -> None:
    if not origin(node):
        node.metadata_props.add(key=_ORIGIN, value=where)


def _with_callers(found: set[str], functions: Mapping[str, FunctionProto]) -> set[str]:
    """Add the functions that call them, because the calls would remain inside these."""
    found, before = set(found), -1
    while len(found) > before:
        before = len(found)
        for name, one in functions.items():
            if any(f"function {node.domain}:{node.op_type}" in found for node in walk(one.node)):
                found.add(name)
    return found
