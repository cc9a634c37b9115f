"""Raises the operator set of a model to one that has what the functions of packed tables use.

onnx's own converter does it, on a copy without large weights. Functions are written out first where their operators mean
something else in the new set. Where the converter fails, an operator set that can say the bodies stays.
"""

from onnx import FunctionProto, ModelProto, checker, inliner, version_converter
from onnx.defs import SchemaError, get_schema, onnx_opset_version

from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.foreign.lean import without_weights
from edge_embed.exporters.onnx.foreign.read import ForeignModel
from edge_embed.exporters.onnx.foreign.scopes import graphs_of
from edge_embed.exporters.onnx.names import DOMAIN, OPSET

_STANDARD = ("", "ai.onnx")
_REMEDY = f"export the model with opset {OPSET} or later"


def raise_opset(file: ForeignModel) -> None:
    """Convert a model to the operator set of the functions, where its own is lower.

    Raises:
        BadInputError: if it cannot be converted, or its operator set is newer than those known here.
    """
    model, opset = file.model, file.opset
    if opset > onnx_opset_version():
        raise BadInputError(f"opset: got {opset}, expected at most {onnx_opset_version()}: export it with an older one")
    if opset >= OPSET:
        return
    _write_out_changed(model, opset)
    lean = without_weights(model)
    given = {tensor.name for tensor in lean.graph.initializer}
    try:
        converted = version_converter.convert_version(lean, OPSET)
        checker.check_model(converted)
    except Exception as error:  # whatever an adapter of the converter runs into
        reason = f"and onnx cannot convert it ({error!s:.200})"
        raise BadInputError(f"opset: got {opset}, expected {OPSET} or later, {reason}: {_REMEDY}") from error
    del model.graph.node[:]
    model.graph.node.extend(converted.graph.node)
    model.graph.initializer.extend(tensor for tensor in converted.graph.initializer if tensor.name not in given)
    for one in (model, *model.functions):
        for item in one.opset_import:
            if item.domain in _STANDARD:
                item.version = max(item.version, OPSET)


def _write_out_changed(model: ModelProto, opset: int) -> None:
    """Write out the functions with operators that a newer set changes: the converter leaves functions as they are."""
    changed = [(one.domain, one.name) for one in model.functions if one.domain != DOMAIN and _changes(one, opset)]
    if changed:
        model.CopyFrom(inliner.inline_selected_functions(model, changed))


def _changes(function: FunctionProto, opset: int) -> bool:
    version = next((item.version for item in function.opset_import if item.domain in _STANDARD), opset)
    waiting = [*function.node]
    while waiting:
        node = waiting.pop()
        waiting += [inner for graph in graphs_of(node) for inner in graph.node]
        if node.domain in _STANDARD and _since(node.op_type, version) != _since(node.op_type, OPSET):
            return True
    return False


def _since(op_type: str, version: int) -> int:
    try:
        return int(get_schema(op_type, version).since_version)
    except SchemaError:
        return 0
