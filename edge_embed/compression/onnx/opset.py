"""Conversion of a model to an operator set that supports the functions of packed tables.

onnx's converter converts a copy without large weights. It does not convert functions: those with operators that change
in the new set are inlined first.
"""

from onnx import FunctionProto, ModelProto, checker, helper, version_converter
from onnx.defs import SchemaError, get_schema, onnx_opset_version

from edge_embed.compression.onnx.foreign_model import ForeignModel
from edge_embed.compression.onnx.inlining import inline
from edge_embed.compression.onnx.largest_constants import listed_constants
from edge_embed.compression.onnx.older_operators import keep_corners, write_as_newer
from edge_embed.compression.onnx.refused_node import check_nodes, reason_of, stuck_at
from edge_embed.compression.onnx.scopes import STANDARD, walk
from edge_embed.compression.onnx.table_uses import View
from edge_embed.compression.onnx.unconvertible_tensors import Aside
from edge_embed.compression.onnx.without_weights import without_weights
from edge_embed.errors import BadInputError
from edge_embed.exporters.onnx.names import DOMAIN, OPSET

# ONNX Runtime accepts these among the standard operators of every set: operators that its optimiser creates, which
# onnx has from 17 on or never, and one that onnx has from 10 on.
_OF_RUNTIME = ("LayerNormalization", "SimplifiedLayerNormalization", "ThresholdedRelu")
_HIDDEN = "com.microsoft.among.standard"
_REMEDY = f"export the model with opset {OPSET} or later"


def raise_opset(file: ForeignModel) -> None:
    """Convert a model to the operator set of the functions, if its own is lower.

    Raises:
        BadInputError: the model cannot be converted, or its operator set is newer than the newest one of onnx.
    """
    model, opset = file.model, file.opset
    if opset > onnx_opset_version():
        most = onnx_opset_version()
        raise BadInputError(f"opset: got {opset}, expected at most {most}: export the model with an older opset")
    if opset >= OPSET:
        return
    _write_out_changed(model, opset)
    lean = without_weights(model)
    write_as_newer(lean, opset)
    aside = Aside(lean.graph)
    _call_standard_by_one_name(lean)
    _move(lean, "", _HIDDEN, opset)
    given = {tensor.name for tensor in lean.graph.initializer}
    imported = {item.domain for item in lean.opset_import}
    for domain in sorted({node.domain for node in walk(lean.graph.node)} - imported - {*STANDARD}):
        lean.opset_import.append(helper.make_opsetid(domain, 1))  # ONNX Runtime knows some that a file need not import
    try:
        checker.check_model(_with_shapes(lean))  # native code follows, which does not check its input
        converted = version_converter.convert_version(lean, OPSET)
        check_nodes(converted)
        _move(converted, _HIDDEN, "", opset)
    except Exception as error:  # any exception of an adapter of the converter
        reason = reason_of(error)
        stops = f"onnx cannot convert it ({stuck_at(lean, reason)}{reason})"
        held = f"{_REMEDY}; {listed_constants(View(file))}"
        raise BadInputError(f"opset: got {opset}, expected {OPSET} or later, and {stops}: {held}") from error
    keep_corners(converted, opset)
    aside.put_back(converted.graph)
    del model.graph.node[:]
    model.graph.node.extend(converted.graph.node)
    model.graph.initializer.extend(tensor for tensor in converted.graph.initializer if tensor.name not in given)
    for one in (model, *model.functions):
        for item in one.opset_import:
            if item.domain in STANDARD:
                item.version = max(item.version, OPSET)


def _call_standard_by_one_name(model: ModelProto) -> None:
    """Rename the domain of the standard operators to the name that onnx's converter knows."""
    for node in walk(model.graph.node):
        node.domain = "" if node.domain in STANDARD else node.domain
    (version,) = {item.version for item in model.opset_import if item.domain in STANDARD}
    others = [item for item in model.opset_import if item.domain not in STANDARD]
    del model.opset_import[:]
    model.opset_import.extend([helper.make_opsetid("", version), *others])


def _move(model: ModelProto, domain: str, other: str, opset: int) -> None:
    """Move operators that only ONNX Runtime has in a set to another domain, because onnx does not know them."""
    for node in walk(model.graph.node):
        if node.domain == domain and node.op_type in _OF_RUNTIME and not _since(node.op_type, opset):
            node.domain = other


def _with_shapes(model: ModelProto) -> ModelProto:
    """Return a copy whose inputs and outputs have shapes, which the checker requires and ONNX Runtime does not."""
    shaped = ModelProto()
    shaped.CopyFrom(model)
    for value in (*shaped.graph.input, *shaped.graph.output):
        if value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape"):
            value.type.tensor_type.shape.SetInParent()
    return shaped


def _write_out_changed(model: ModelProto, opset: int) -> None:
    """Inline functions with operators that a newer set changes, because the converter does not convert functions."""
    inline(model, [one for one in model.functions if one.domain != DOMAIN and _changes(one, opset)])


def _changes(function: FunctionProto, opset: int) -> bool:
    standard = (node.op_type for node in walk(function.node) if node.domain in STANDARD)
    return any(_since(op_type, opset) != _since(op_type, OPSET) for op_type in standard)


def _since(op_type: str, version: int) -> int:
    try:
        return int(get_schema(op_type, version).since_version)
    except SchemaError:
        return 0
