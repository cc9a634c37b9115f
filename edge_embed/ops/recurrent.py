"""LSTM, GRU and RNN as opaque operators, which keep the length dynamic in an exported program.

``torch.export`` unrolls ``nn.LSTM`` and thereby fixes the sequence length (pytorch#115092). While `opaque_recurrence`
is active, each call of these modules is recorded as one operator. The operator has the schema of its ATen operator;
only the shape rule is defined here.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from edge_embed.errors import BadInputError

_PACKED_SEQUENCES = (
    "packed sequences cannot be exported (their length depends on the data): "
    "give the recurrent layer the padded batch, and mask its output where that matters"
)
_OPTIONS = "bool has_biases, int num_layers, float dropout, bool train, bool bidirectional, bool batch_first"
_LIBRARY = torch.library.Library("edge_embed", "FRAGMENT")


def _output_shape(x: Tensor, hidden: Tensor, bidirectional: bool) -> tuple[Any, ...]:
    """Return the shape [..., directions * hidden_size] for [..., features], with either batch layout or no batch."""
    return (*x.shape[:-1], hidden.shape[-1] * (2 if bidirectional else 1))


def _define(name: str, states: str) -> None:
    """Register ``edge_embed::<name>``; ``states`` is the schema type of the initial state, hx."""
    count = 2 if states == "Tensor[]" else 1
    outputs = ", ".join(["Tensor"] * (1 + count))
    _LIBRARY.define(f"{name}(Tensor input, {states} hx, Tensor[] params, {_OPTIONS}) -> ({outputs})")
    aten = getattr(torch.ops.aten, name).input

    def run(*args: Any) -> tuple[Tensor, ...]:
        return tuple(output.contiguous() for output in aten(*args))

    def shapes(x: Tensor, hx: Any, params: list[Tensor], biases: bool, layers: int, dropout: float,
               train: bool, bidirectional: bool, batch_first: bool) -> tuple[Tensor, ...]:  # fmt: skip
        first = hx[0] if count == 2 else hx
        states = [first.new_empty(first.shape) for _ in range(count)]
        return x.new_empty(_output_shape(x, first, bidirectional)), *states

    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    torch.library.register_fake(f"edge_embed::{name}", shapes, lib=_LIBRARY)


for _name, _states in (("lstm", "Tensor[]"), ("gru", "Tensor"), ("rnn_tanh", "Tensor"), ("rnn_relu", "Tensor")):
    _define(_name, _states)

OPERATORS = {name: getattr(torch.ops.edge_embed, name).default for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}


class _Opaque(TorchFunctionMode):
    """Replaces the functions that recurrent modules call with the operators of this file."""

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name == "_pack_padded_sequence":
            raise BadInputError(_PACKED_SEQUENCES)
        if name in OPERATORS:
            return _record(name, *args)
        return func(*args, **(kwargs or {}))


def _record(name: str, x: Tensor, hx: Any, params: Any, *options: Any) -> Any:
    if not isinstance(params, list):  # the overload for packed sequences has (x, batch_sizes, hx, params)
        raise BadInputError(_PACKED_SEQUENCES)
    if name == "lstm" and hx[0].shape[-1] != hx[1].shape[-1]:
        raise BadInputError(
            f"an LSTM with proj_size={hx[0].shape[-1]} cannot be exported, as ONNX has no such operator: "
            "use proj_size=0 and a Linear layer after the LSTM"
        )
    return OPERATORS[name](x, hx, params, *options)


@contextmanager
def opaque_recurrence() -> Iterator[None]:
    """Record recurrent layers as opaque operators while this context is active.

    Raises:
        BadInputError: for ``proj_size`` and packed sequences, which ONNX cannot express.
    """
    with _Opaque():
        yield
