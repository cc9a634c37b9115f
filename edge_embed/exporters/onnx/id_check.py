"""The check of ids around lookups and bags in ONNX; see `edge_embed.lowering.id_check`.

    ids -> Clip to 0 ... n - 1 -> node -> rows -> Mul by 1, or by NaN for a wrong id

Numbers times 1 keep their bits. For ``error`` the number of wrong ids is an index into one element, which ``Gather``
refuses unless it is 0. Its element, 0, is added to the ids of the node. The element is an integer of 64 bits: WebGPU
has no kernel for those, so ONNX Runtime runs that ``Gather`` on the processor, which checks indices.
"""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np
import onnx_ir as ir
import torch
from onnx import numpy_helper
from onnxscript import opset18

from edge_embed.exporters.onnx.dense_bag import DENSE_BAGS
from edge_embed.exporters.onnx.method import OnnxOperator, row_type
from edge_embed.lowering.id_check import IdCheck, marker
from edge_embed.ops.operators import LEADING

op: Any = opset18  # its annotations lack lists of constants and the result of Concat

CHECKED_USES = ("rows", "bag")
_INT64 = int(ir.DataType.INT64)
_ATEN = torch.ops.aten


class CheckedIds:
    """Ids of one lookup or bag.

    Args:
        ids: the ids.
        num_rows: number of rows of the table, a scalar if it is known at run time.
        id_check: the check.

    Attributes:
        safe: the ids for the node, int64: wrong ones are replaced.
    """

    def __init__(self, ids: Any, num_rows: Any, id_check: IdCheck) -> None:
        ids = ids if ids.dtype == ir.DataType.INT64 else op.Cast(ids, to=_INT64)
        last = num_rows - 1 if isinstance(num_rows, int) else op.Sub(num_rows, 1)
        self.safe = op.Clip(ids, 0, last)
        self._is_right = op.Equal(self.safe, ids)
        self._wrong = op.Cast(op.Not(self._is_right), to=_INT64)
        if id_check == "error":
            nothing = op.Gather([0], op.ReduceSum(self._wrong, keepdims=0))
            # ONNX Runtime's error has the name of the node, and the index as ``idx``.
            bound = last if isinstance(last, int) else "the number of rows minus 1"
            nothing.producer().name = f"expected ids 0 to {bound}; idx is the number of wrong ones"
            self.safe = op.Add(self.safe, nothing)

    def rows(self, rows: Any, kind: ir.DataType) -> Any:
        """Mark the rows [*ids, d] of wrong ids."""
        return _marked(rows, self._is_right, kind)

    def bags(self, bags: Any, bounds: Any, kind: ir.DataType) -> Any:
        """Mark the bags [B, d] with wrong ids; bag b has the ids from bounds[b] to bounds[b + 1]."""
        none = op.Constant(value_ints=[0])
        running = op.CumSum(op.Concat(none, self._wrong, axis=0), op.Constant(value_int=0))  # wrong ids before a place
        before = op.Gather(running, op.Slice(bounds, [0], [-1], [0]))
        after = op.Gather(running, op.Slice(bounds, [1], [2**63 - 1], [0]))
        return _marked(bags, op.Equal(before, after), kind)


def _marked(rows: Any, is_right: Any, kind: ir.DataType) -> Any:
    """Mark the rows [*, d] that are not right."""
    dtype = kind.numpy()
    mark = marker(dtype.name)
    if dtype.kind != "f":  # ONNX Runtime has no ``Where`` of some integers
        marked = op.Where(op.Unsqueeze(is_right, [-1]), op.Cast(rows, to=_INT64), op.Constant(value_int=mark))
        return op.Cast(marked, to=int(kind))
    one, nan = (op.Constant(value=numpy_helper.from_array(np.array(number, dtype))) for number in (1, mark))
    return op.Mul(rows, op.Unsqueeze(op.Where(is_right, one, nan), [-1]))


def checked(operator: OnnxOperator, id_check: IdCheck) -> Callable[..., Any]:
    """Return `OnnxOperator.translation` with a check around the node."""
    translate = operator.translation()

    def translate_checked(*arguments: Any) -> Any:
        given, table = arguments[: len(LEADING[operator.use])], arguments[len(LEADING[operator.use]) :]
        num_rows, _ = operator.method.operators.size(*table)
        ids = CheckedIds(given[0], num_rows, id_check)
        found, kind = translate(ids.safe, *arguments[1:]), row_type(operator.method.table(*table)[0])
        return ids.rows(found, kind) if operator.use == "rows" else ids.bags(found, given[1], kind)

    return translate_checked


def dense_lookups(id_check: IdCheck) -> dict[Callable[..., Any], Callable[..., Any]]:
    """Return translations of lookups and bags of dense tables with a check, by torch operator."""

    def embedding(
        weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
    ) -> Any:
        ids = CheckedIds(indices, _num_rows(weight), id_check)
        return ids.rows(op.Gather(weight, ids.safe), weight.dtype)

    found = {operator: _checked_bag(translate, id_check) for operator, translate in DENSE_BAGS.items()}
    return {_ATEN.embedding.default: embedding, **found}


def _num_rows(weight: Any) -> Any:
    """Return the number of rows, a scalar for a table that is an input of any size."""
    size = weight.shape[0]
    return size if isinstance(size, int) else op.Squeeze(op.Shape(weight, start=0, end=1))


def _checked_bag(translate: Callable[..., Any], id_check: IdCheck) -> Callable[..., Any]:
    @wraps(translate)
    def bag(*arguments: Any, **options: Any) -> Any:
        given = signature(translate).bind(*arguments, **options)
        given.apply_defaults()
        weight, indices, bounds = (given.arguments[name] for name in ("weight", "indices", "offsets"))
        ids = CheckedIds(indices, _num_rows(weight), id_check)
        given.arguments["indices"] = ids.safe
        bags, *others = translate(*given.args, **given.kwargs)
        bounds = op.Cast(bounds, to=_INT64)
        if not given.arguments["include_last_offset"]:
            bounds = op.Concat(bounds, op.Shape(indices), axis=0)
        return ids.bags(bags, bounds, weight.dtype), *others

    return bag
