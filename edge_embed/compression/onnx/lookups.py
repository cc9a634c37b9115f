"""Lookups of rows by the gather operators.

The nodes are of one of these forms; GatherBlockQuantized is an operator of com.microsoft.

    Gather (table, ids)                                    along any axis of a table with two or more axes
    GatherND (table, ids [..., 1])
    GatherElements (table, Expand (ids [m, 1]))            along axis 0
    GatherBlockQuantized (table, ids, scales, zeros)
"""

from collections.abc import Iterator
from dataclasses import replace

from onnx import NodeProto, TensorProto

from edge_embed.compression.onnx.block_quantized import gathered_blocks
from edge_embed.compression.onnx.constant_values import Known, integers
from edge_embed.compression.onnx.row_wise import dequantised
from edge_embed.compression.onnx.scopes import Scope, is_standard
from edge_embed.compression.onnx.table_uses import FLOAT_KINDS, Use, View, from_front, values_of

_TABLES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8")
_CODES = (
    "int2 uint2 int4 uint4 int16 uint16 int32 float4e2m1 float8e4m3fn float8e4m3fnuz float8e5m2 float8e5m2fnuz".split()
)


def gathers(view: View, scope: Scope, place: int, node: NodeProto) -> Iterator[Use]:
    """Yield the lookup of a node, if it is one."""
    found = _found(view, scope, place, node)
    if found is None or 0 in found.known.shape:
        return
    if found.known.kind not in FLOAT_KINDS:
        made = dequantised(view, found)
        found = found if made.reason and found.known.kind == TensorProto.BFLOAT16 else made
    if found.known.dtype in _TABLES:  # other types are counts and indices, unless they become floats
        yield found


def _found(view: View, scope: Scope, place: int, node: NodeProto) -> Use | None:
    if node.domain == "com.microsoft" and node.op_type == "GatherBlockQuantized":
        return gathered_blocks(view, scope, place, node)
    if not is_standard(node, "Gather", "GatherND", "GatherElements") or len(node.input) != 2:
        return None
    known = view.known(scope, node.input[0])
    if known is None or len(known.shape) < 2 or known.dtype not in (*_TABLES, *_CODES):
        return None
    plain = Use("rows", scope, place, node, known, 0, ids=node.input[1])
    values = values_of(node)
    if node.op_type == "Gather":
        axis = from_front(values.get("axis", 0), len(known.shape))
        return replace(plain, axis=axis) if axis >= 0 else None
    if node.op_type == "GatherND":
        ids = None if values.get("batch_dims", 0) else view.without_column(scope, node.input[1])
        return None if ids is None else replace(plain, ids=ids[0], has_column=ids[1])
    return _elements(view, plain, known) if from_front(values.get("axis", 0), 2) == 0 else None


def _elements(view: View, use: Use, known: Known) -> Use | None:
    """Return the lookup of a ``GatherElements`` whose ids are constant along each row, or None."""
    scope, name, passed = view.behind_casts(use.scope, use.ids)
    made = view.maker(scope, name)
    if len(known.shape) != 2 or made is None or scope is not use.scope or not is_standard(made[1], "Expand"):
        return None
    column, sizes = made[1].input[0], integers(view.known(scope, made[1].input[1]))
    ids = view.without_column(scope, column)
    if ids is None or sizes is None or len(sizes) != 2 or sizes[1] != known.shape[1]:
        return None
    shape = view.shape(scope, column)
    if sizes[0] != 1 and (shape is None or shape[0] != sizes[0]):
        return None
    return replace(use, ids=ids[0], has_column=ids[1], passed=passed | {(id(scope), name)})
