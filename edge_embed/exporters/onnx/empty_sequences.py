"""Guard of recurrent nodes against an empty batch or sequence, on which kernels of ONNX Runtime 1.31 crash.

If a dimension is dynamic, one row or step of zeros is added to an empty one, and removed from the result:

    x [T, B, in] -> Pad to [max(T, 1), max(B, 1), in] -> LSTM, GRU, RNN -> Slice to [T, B, directions * H]

Any other batch is padded by nothing, which costs a copy. Without a step the final states are the initial ones.
"""

from collections.abc import Callable
from typing import Any

import onnx_ir as ir
from onnxscript import opset18

op: Any = opset18  # its annotations lack lists of constants and the result of Concat


def guarded(translate: Callable[..., Any], num_states: int) -> Callable[..., Any]:
    """Return a translation of a recurrent operator whose nodes never get an empty batch or sequence.

    Args:
        translate: translation of (x, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first).
        num_states: number of states; two are a list, as in ATen.
    """

    def translate_guarded(
        x: Any,
        hx: Any,
        params: Any,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        options = (params, has_biases, num_layers, dropout, train, bidirectional, batch_first)
        at_batch, at_step = (0, 1) if batch_first else (1, 0)
        dynamic_batch, dynamic_length = (not isinstance(x.shape[at], int) for at in (at_batch, at_step))
        if not dynamic_batch and not dynamic_length:
            return translate(x, hx, *options)
        initial = list(hx) if num_states > 1 else [hx]
        sizes = op.Shape(x, start=0, end=2)
        none, one = _zeros(1), op.Constant(value_ints=[1])
        missing = op.Sub(one, op.Min(sizes, one))  # 1 where a size is 0; ONNX Runtime infers no shapes from booleans
        num_rows = op.Slice(sizes, [at_batch], [at_batch + 1])
        states = initial
        if dynamic_batch:
            more_rows = op.Slice(missing, [at_batch], [at_batch + 1])
            states = [_padded(state, op.Concat(_zeros(4), more_rows, none, axis=0)) for state in initial]
        longer = _padded(x, op.Concat(_zeros(3), missing, none, axis=0))
        output, *last = translate(longer, states if num_states > 1 else states[0], *options)
        if dynamic_batch:
            last = [op.Slice(state, [0], num_rows, [1]) for state in last]
        if dynamic_length:
            has_no_step = op.Equal(op.Slice(sizes, [at_step], [at_step + 1]), none)
            last = [op.Where(has_no_step, first, state) for first, state in zip(initial, last, strict=True)]
        return op.Slice(output, [0, 0], sizes, [0, 1]), *last

    return translate_guarded


def _zeros(count: int) -> Any:
    return op.Constant(value_ints=[0] * count)


def _padded(value: Any, pads: Any) -> Any:
    """Pad ``value`` with zeros and keep its known sizes."""
    padded = op.Pad(value, pads)
    padded.dtype = value.dtype
    padded.shape = ir.Shape([size if isinstance(size, int) else None for size in value.shape])
    return padded
