"""Lookups written as products: a one-hot matrix of ids times the table.

The node is MatMul, Gemm or FusedMatMul (one_hot, table). one_hot has any type and one of these forms:

    OneHot (ids, n, [0, 1]), with classes along the last axis
    Equal (ids [..., 1], 0 ... n - 1)
    ScatterElements (zeros [..., n], ids [..., 1], ones) along the last axis
"""

from collections.abc import Iterator
from dataclasses import replace

from onnx import NodeProto, numpy_helper

from edge_embed.compression.onnx.constant_values import Known, is_arange, is_filled
from edge_embed.compression.onnx.products import product_of
from edge_embed.compression.onnx.scopes import Scope, is_standard
from edge_embed.compression.onnx.table_uses import Use, View, from_front, values_of


def products(view: View, scope: Scope, place: int, node: NodeProto) -> Iterator[Use]:
    """Yield the lookup of a node, if it is one."""
    product = product_of(node)
    known = None if product is None else view.known(scope, node.input[1])
    if product is None or known is None or len(known.shape) != 2 or view.known(scope, node.input[0]) is not None:
        return
    axis = 1 if product.transposed else 0
    inner, hot, passed = view.behind_casts(scope, node.input[0])
    made = view.maker(inner, hot)
    if inner is not scope or made is None or made[0] is not scope:
        return
    use = Use("rows", scope, place, node, known, axis, is_product=True, passed=passed | {(id(scope), hot)})
    found = _one_hot(view, use, made[1], known.shape[axis])
    if found is not None:
        yield found


def _one_hot(view: View, use: Use, node: NodeProto, count: int) -> Use | None:
    if is_standard(node, "OneHot"):
        return _by_one_hot(view, use, node, count)
    if is_standard(node, "Equal"):
        return _by_equal(view, use, node, count)
    if is_standard(node, "ScatterElements", "Scatter"):
        return _by_scatter(view, use, node, count)
    return None


def _by_one_hot(view: View, use: Use, node: NodeProto, count: int) -> Use | None:
    ids, depth, values = node.input
    off_on = view.known(use.scope, values)
    if not is_filled(view.known(use.scope, depth), count) or off_on is None or off_on.compute().tolist() != [0, 1]:
        return None
    axis, shape = values_of(node).get("axis", -1), view.shape(use.scope, ids)
    if axis != -1 and (shape is None or axis != len(shape)):
        return None
    return replace(use, ids=ids, rule="zeros from -n")


def _by_equal(view: View, use: Use, node: NodeProto, count: int) -> Use | None:
    for column, classes in (node.input, reversed(node.input)):
        known, ids = view.known(use.scope, classes), view.without_column(use.scope, column)
        if known is None or ids is None or not is_arange(known, count):
            continue
        shape = view.shape(use.scope, column)
        if len(known.shape) == 1 or (shape is not None and len(known.shape) <= len(shape)):
            return replace(use, ids=ids[0], has_column=ids[1], rule="zeros")
    return None


def _by_scatter(view: View, use: Use, node: NodeProto, count: int) -> Use | None:
    zeros, column, ones = node.input
    values = values_of(node)
    data, indices = (view.shape(use.scope, name) for name in (zeros, column))
    ids = view.without_column(use.scope, column)
    if (
        data is None
        or indices is None
        or ids is None
        or data[-1] != count
        or values.get("reduction", b"none") != b"none"
    ):
        return None
    if from_front(values.get("axis", 0), len(data)) != len(data) - 1:
        return None
    if data[:-1] != indices[:-1] or "" in data or not _holds(view, use.scope, zeros, 0):
        return None
    if not _holds(view, use.scope, ones, 1):
        return None
    return replace(use, ids=ids[0], has_column=ids[1])


def _holds(view: View, scope: Scope, name: str, number: float) -> bool:
    """Return whether each number of a value, of any size, equals a number."""
    known: Known | None = view.known(scope, name)
    if known is not None:
        return is_filled(known, number)
    made = view.maker(scope, name)
    if made is None:
        return False
    if is_standard(made[1], "Expand", "Cast", "Identity"):
        return _holds(view, made[0], made[1].input[0], number)
    if not is_standard(made[1], "ConstantOfShape"):
        return False
    filling = [numpy_helper.to_array(item.t) for item in made[1].attribute if item.name == "value"]
    return float(filling[0].reshape(-1)[0] if filling else 0) == number
