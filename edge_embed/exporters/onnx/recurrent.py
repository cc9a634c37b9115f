"""Translation of opaque recurrent operators to ONNX LSTM, GRU and RNN.

LSTM and GRU use the exporter's own translations of their ATen operators. It has none for RNN, so the one below
builds the node layer by layer:

    h_t = act(W_ih x_t + b_ih + W_hh h_(t-1) + b_hh)
"""

from collections.abc import Callable, Sequence
from typing import Any

from onnxscript import opset18
from onnxscript.function_libs.torch_lib.ops import core

from edge_embed.exporters.onnx.empty_sequences import guarded
from edge_embed.ops import recurrent

op: Any = opset18  # its annotations lack lists of constants and the result of Concat


def _rnn(activation: str) -> Callable[..., Any]:
    def translate(
        x: Any,
        hx: Any,
        params: Sequence[Any],
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool,
    ) -> Any:
        directions = 2 if bidirectional else 1
        tensors = len(params) // (num_layers * directions)  # per layer and direction: 2 without biases, otherwise 4
        sequence = op.Transpose(x, perm=[1, 0, 2]) if batch_first else x  # [T, B, in]
        states = []
        for layer in range(num_layers):
            first = layer * directions
            chosen = [params[(first + at) * tensors : (first + at + 1) * tensors] for at in range(directions)]
            initial = op.Slice(hx, [first], [first + directions], [0])  # [directions, B, H]
            output, last = op.RNN(
                sequence,
                _stack([weights[0] for weights in chosen]),
                _stack([weights[1] for weights in chosen]),
                _stack([op.Concat(weights[2], weights[3], axis=0) for weights in chosen]) if has_biases else None,
                None,
                initial,
                hidden_size=int(params[1].shape[-1]),
                direction="bidirectional" if bidirectional else "forward",
                activations=[activation] * directions,
            )  # output [T, directions, B, H]
            by_batch = op.Transpose(output, perm=[0, 2, 1, 3])  # [T, B, directions, H]
            lengths = op.Shape(by_batch, start=0, end=2)
            width = op.Constant(value_ints=[directions * int(params[1].shape[-1])])
            sequence = op.Reshape(by_batch, op.Concat(lengths, width, axis=0), allowzero=1)
            states.append(last)
        result = op.Transpose(sequence, perm=[1, 0, 2]) if batch_first else sequence
        return result, op.Concat(*states, axis=0)

    return translate


def _stack(matrices: list[Any]) -> Any:
    return op.Concat(*[op.Unsqueeze(matrix, [0]) for matrix in matrices], axis=0)


TRANSLATIONS: dict[Callable[..., Any], Callable[..., Any]] = {
    recurrent.OPERATORS["lstm"]: guarded(core.aten_lstm, num_states=2),
    recurrent.OPERATORS["gru"]: guarded(core.aten_gru, num_states=1),
    recurrent.OPERATORS["rnn_tanh"]: guarded(_rnn("Tanh"), num_states=1),
    recurrent.OPERATORS["rnn_relu"]: guarded(_rnn("Relu"), num_states=1),
}
