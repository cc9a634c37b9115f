"""Bags of a dense table in standard ONNX operators.

    weight [n, d], ids [N], offsets [B] or [B + 1]  ->  bags [B, d]

torch's exporter writes a loop over the bags, whose names and order differ from one process to the next. Here sums are
differences of running sums of integers, and maxima are scattered to the row of their bag, as in
`edge_embed.exporters.onnx.bag`. Rows of padding belong to a bag behind the last one. A bag with a row that is not
finite has sums that are NaN. ``Gather`` refuses offsets that do not begin at 0, decrease, or exceed the number of
ids.
"""

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
import torch
from onnxscript import opset18

op: Any = opset18  # its annotations lack lists of constants and the result of Concat

_FLOAT, _INT64 = int(ir.DataType.FLOAT), int(ir.DataType.INT64)
_MEAN, _MAX = 1, 2


def _bag(
    weight: Any,
    indices: Any,
    offsets: Any,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Any, Any, Any, Any]:
    """Translate ``aten::embedding_bag``; only the first of its four results, the bags, is used by models."""
    begin = op.Cast(offsets, to=_INT64)
    if include_last_offset:
        begin = op.Slice(begin, [0], [-1], [0])
    count = op.Shape(indices)
    places = op.Add(op.Shape(begin), _nothing(begin, count))  # [1]: B, the bag of padding rows
    target = _targets(begin, count, places)
    if padding_idx is not None:
        padding_idx += weight.shape[0] if padding_idx < 0 else 0
        is_padding = op.Equal(op.Cast(indices, to=_INT64), op.Constant(value_int=padding_idx))
        target = op.Where(is_padding, places, target)
    rows = op.Gather(weight, indices)
    if per_sample_weights is not None:
        rows = op.Mul(rows, op.Unsqueeze(per_sample_weights, [1]))
    return op.CastLike(_reduced(rows, target, begin, places, mode), weight), *(op.Identity(offsets) for _ in range(3))


def _nothing(begin: Any, count: Any) -> Any:
    """Return int64 [1]: 0, or an error of ``Gather`` for invalid offsets."""
    bounds = op.Concat(begin, count, axis=0)
    falls = op.Less(op.Slice(bounds, [1], [2**63 - 1], [0]), begin)
    num_falls = op.ReduceSum(op.Cast(falls, to=_INT64), [0], keepdims=1)
    return op.Gather([0], op.Add(num_falls, op.Abs(op.Gather(bounds, [0]))))


def _targets(begin: Any, count: Any, places: Any) -> Any:
    """Return int64 [N]: the bag of each position, which is the number of bags that begin there or before, minus 1."""
    none = op.Expand(op.Constant(value_int=0), op.Add(count, [1]))
    begins = op.ScatterElements(none, begin, op.Expand(op.Constant(value_int=1), places), axis=0, reduction="add")
    begun = op.Slice(op.CumSum(begins, op.Constant(value_int=0)), [0], count, [0])
    return op.Sub(begun, [1])


def _reduced(rows: Any, target: Any, begin: Any, places: Any, mode: int) -> Any:
    """Reduce rows [N, d] to [B, d]; empty bags are zero."""
    counts_shape = op.Add(places, [1])
    ones = op.Expand(op.Constant(value_float=1.0), op.Shape(target))
    none = op.Expand(op.Constant(value_float=0.0), counts_shape)
    counted = op.ScatterElements(none, target, ones, axis=0, reduction="add")
    counts = op.Unsqueeze(op.Slice(counted, [0], places, [0]), [1])  # [B, 1]
    if mode == _MAX:
        targets = op.Expand(op.Unsqueeze(target, [1]), op.Shape(rows))
        shape = op.Concat(counts_shape, op.Shape(rows, start=1), axis=0)  # [B + 1, d], padding last
        lowest = op.Expand(op.Constant(value_float=float("-inf")), shape)
        most = op.ScatterElements(lowest, targets, op.Cast(rows, to=_FLOAT), axis=0, reduction="max")
        zero = op.Constant(value_float=0.0)
        return op.Where(op.Equal(counts, zero), zero, op.Slice(most, [0], places, [0]))
    return _sums(op.Cast(rows, to=_FLOAT), target, begin, places, counts if mode == _MEAN else None)


def _sums(rows: Any, target: Any, begin: Any, places: Any, counts: Any) -> Any:
    """Return sums [B, d] of float32 rows, or means; the bodies of compressed bags are computed in the same way."""
    sizes = op.ReduceL1(rows, [1], keepdims=0)
    none = op.Expand(op.Constant(value_float=0.0), op.Add(places, [1]))
    limits = op.ScatterElements(none, target, sizes, axis=0, reduction="add")
    limits = op.Mul(op.Slice(limits, [0], places, [0]), op.Cast(op.Add(places, [1]), to=_FLOAT))
    powers = op.Ceil(op.Div(op.Log(limits), op.Constant(value_float=0.6931472)))
    bits = op.Min(op.Sub(op.Constant(value_float=60.0), powers), op.Constant(value_float=126.0))
    not_finite = op.Sub(limits, limits)  # NaN, else 0
    units = op.Add(op.Pow(op.Constant(value_float=2.0), bits), not_finite)  # [B]
    padded_units = op.Concat(units, op.Constant(value_floats=[0.0]), axis=0)
    scaled = op.Mul(rows, op.Unsqueeze(op.Gather(padded_units, target), [1]))
    zero_row = op.Expand(
        op.Constant(value_float=0.0), op.Concat(op.Constant(value_ints=[1]), op.Shape(rows, start=1), axis=0)
    )
    integers = op.Cast(op.Concat(zero_row, scaled, axis=0), to=_INT64)
    running = op.CumSum(integers, op.Constant(value_int=0))  # [N + 1, d]
    end = op.Concat(op.Slice(begin, [1], [2**63 - 1], [0]), op.Shape(target), axis=0)
    sums = op.Sub(op.Gather(running, end), op.Gather(running, begin))
    if counts is not None:
        sums = op.Div(sums, op.Cast(op.Max(counts, op.Constant(value_float=1.0)), to=_INT64))
    return op.Div(op.Cast(sums, to=_FLOAT), op.Unsqueeze(units, [1]))


_ATEN = torch.ops.aten

DENSE_BAGS: dict[Callable[..., Any], Callable[..., Any]] = {
    _ATEN.embedding_bag.default: _bag,
    _ATEN.embedding_bag.padding_idx: _bag,
}
"""Translations for ``torch.onnx.export``, by torch operator."""
