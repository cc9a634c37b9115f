"""Integer rows that become floats after the lookup.

    Gather (codes, ids) -> DequantizeLinear, or Cast, and Mul, Div, Add or Sub, with constants or with rows of other
    constants for the same ids

The table is the result of these operators for all codes at once.
"""

import math
from dataclasses import replace

from onnx import NodeProto

from edge_embed.compression.onnx.constant_values import Known
from edge_embed.compression.onnx.scopes import Scope, is_standard, spelled
from edge_embed.compression.onnx.table_uses import FLOAT_KINDS, Use, View, values_of

_STEPS = ("DequantizeLinear", "Cast", "Identity", "Mul", "Div", "Add", "Sub")


def dequantised(view: View, use: Use) -> Use:
    """Return the float lookup that a lookup of integers belongs to, or the same one with a reason to stay dense."""
    reason = f"its numbers are {use.known.dtype}, expected float32 or float16"
    if use.axis or len(use.known.shape) != 2:
        return replace(use, reason=reason)
    last, found = use, None
    while (step := _next(view, last)) is not None:
        last = step
        found = last if last.known.kind in FLOAT_KINDS else found
    return found or replace(use, reason=f"{reason}: {_remedy(view, use)}")


def _remedy(view: View, use: Use) -> str:
    takers = view.takers.get((id(use.scope), use.node.output[0]), [])
    users = f" ({', '.join(spelled(node) for _, _, node in takers[:3])} uses its rows)" if takers else ""
    return f"convert them to floats with DequantizeLinear or Cast right after the lookup{users}"


def _next(view: View, use: Use) -> Use | None:
    """Return the lookup extended by the next operator, or None."""
    name = use.node.output[0]
    takers = view.takers.get((id(use.scope), name), [])
    outputs = {value.name for value in use.scope.graph.output}
    if len(takers) != 1 or name in outputs:
        return None
    scope, place, node = takers[0]
    if scope is not use.scope or not _is_step(node):
        return None
    operands: list[Known | None] = []
    passed = use.passed | {(id(scope), name)}
    for position, given in enumerate(node.input):
        if given == name:
            operands.append(use.known)
            continue
        operand, by_ids = _operand(view, use, given)
        if given and operand is None:
            return None
        if operand is not None and not by_ids and not _fits(operand, use.known.shape[1], node, position):
            return None
        if by_ids and operand is not None and node.op_type != "DequantizeLinear" and len(operand.shape) != 2:
            return None  # one number per row would be broadcast as one per column
        passed |= {(id(scope), given)} if by_ids else frozenset()
        operands.append(operand)
    step = _over_rows(view, use, node, operands)
    known = None if step is None else view.constants.computed(step, operands)
    if known is None or known.shape != use.known.shape:
        return None
    return replace(use, place=place, node=node, known=known, passed=passed)


def _is_step(node: NodeProto) -> bool:
    return is_standard(node, *_STEPS) or (node.domain == "com.microsoft" and node.op_type == "DequantizeLinear")


def _operand(view: View, use: Use, name: str) -> tuple[Known | None, bool]:
    """Return a constant, or the constant whose rows are looked up by the same ids, and whether it is the latter."""
    known = view.known(use.scope, name) if name else None
    made = view.maker(use.scope, name) if name and known is None else None
    if made is None or not is_standard(made[1], "Gather") or values_of(made[1]).get("axis", 0):
        return known, False
    whole = view.known(use.scope, made[1].input[0])
    if whole is None or made[1].input[1] != use.ids or whole.shape[:1] != use.known.shape[:1]:
        return None, False
    return whole, True


def _fits(operand: Known, dim: int, node: NodeProto, position: int) -> bool:
    """Return whether a constant has one number in all, or one per column."""
    return math.prod(operand.shape) == 1 or (len(operand.shape) == 1 and operand.shape[0] == dim)


def _over_rows(view: View, use: Use, node: NodeProto, operands: list[Known | None]) -> NodeProto | None:
    """Return the node for all rows at once, with the axis of scales adapted to the table, or None."""
    if node.op_type != "DequantizeLinear":
        is_flat = any(each is not None and len(each.shape) == 1 and each.shape[0] != 1 for each in operands)
        columns = [each for each in operands if each is not None and each.shape == (use.known.shape[1],)]
        return None if is_flat and not columns else node
    scale = operands[1]
    if scale is None or operands[0] is not use.known:
        return None
    rank = _rank(view, use.scope, use.ids)
    axis, last = values_of(node).get("axis", 1), None if rank is None else rank
    is_last = axis in (-1, last)
    is_row = axis == 0 and rank == 1 and scale.shape == use.known.shape[:1]
    if math.prod(scale.shape) != 1 and not is_last and not is_row:
        return None
    changed = NodeProto()
    changed.CopyFrom(node)
    del changed.attribute[:]
    changed.attribute.extend(item for item in node.attribute if item.name != "axis")
    changed.attribute.add(name="axis", type=2, i=0 if is_row else 1)
    return changed


def _rank(view: View, scope: Scope, name: str) -> int | None:
    shape = view.shape(scope, name)
    return None if shape is None else len(shape)
