"""Output layers that share a table: products of hidden states with all its rows, dense and packed.

    FULLY_CONNECTED   hidden [*, d], table [n, d], bias [n] or none            ->  [*, n], or [m, n] of m hidden states
    BATCH_MATMUL      hidden [*, d], table [d, n], or the transpose of [n, d]  ->  [*, n]

Hidden states and results are float32. The table may have leading axes of size 1, at most as many axes as the hidden
states.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from edge_embed.compression.tflite.constant_origins import Origin, Origins, tensor_of
from edge_embed.compression.tflite.dequantize import kind_of
from edge_embed.compression.tflite.subgraph_calls import numbers, operator_name

NO_BIAS = -1
_ACTIVATIONS = range(4)  # none and the three of ReLU, which ADD supports too


@dataclass(frozen=True)
class TiedOutputLayer:
    """An output layer: an operator that multiplies hidden states with all rows of a table.

    Attributes:
        operator: the operator, of the schema's classes.
        origin: the table.
        row_axis: the axis of the constant that indexes its rows.
        hidden: number of the tensor of hidden states.
        keeps_shape: whether the result has the axes of the hidden states; otherwise they are flattened to one.
        bias: number of the tensor of the bias, -1 for none.
        activation: its activation, as a number of the schema.
    """

    operator: Any
    origin: Origin
    row_axis: int
    hidden: int
    keeps_shape: bool
    bias: int = NO_BIAS
    activation: int = 0

    @property
    def result(self) -> int:
        """Return the number of the result's tensor."""
        return numbers(self.operator.outputs)[0]


def find_tied_output_layer(model: Any, origins: Origins, number: int, operator: Any) -> TiedOutputLayer | None:
    """Return the output layer of an operator of a subgraph, or None if it does something else."""
    name = operator_name(model, operator)
    if name not in _KINDS:
        return None
    hidden, table = numbers(operator.inputs)[:2]
    origin, graph = origins.of(number, table), model.subgraphs[number]
    if origin is None or origins.of(number, hidden) is not None:
        return None
    kinds = {kind_of(tensor_of(graph, each)) for each in (hidden, numbers(operator.outputs)[0])}
    sizes, axes = numbers(tensor_of(graph, table).shape), len(numbers(tensor_of(graph, hidden).shape))
    if kinds != {"float32"} or len(sizes) < 2 or set(sizes[:-2]) - {1} or not axes:
        return None
    return _KINDS[name](graph, operator, origin, hidden, (len(sizes), axes))


def _fully_connected(
    graph: Any, operator: Any, origin: Origin, hidden: int, ranks: tuple[int, int]
) -> TiedOutputLayer | None:
    options, (_, _, *bias) = operator.builtinOptions, numbers(operator.inputs)
    number = bias[0] if bias else NO_BIAS
    is_float = number < 0 or kind_of(tensor_of(graph, number)) == "float32"
    if options.weightsFormat or options.fusedActivationFunction not in _ACTIVATIONS or ranks[0] != 2 or not is_float:
        return None
    return TiedOutputLayer(
        operator, origin, 0, hidden, bool(options.keepNumDims), number, options.fusedActivationFunction
    )


def _batch_matmul(
    graph: Any, operator: Any, origin: Origin, hidden: int, ranks: tuple[int, int]
) -> TiedOutputLayer | None:
    options = operator.builtinOptions
    if options.adjX or ranks[0] > ranks[1]:
        return None
    return TiedOutputLayer(operator, origin, ranks[0] - (2 if options.adjY else 1), hidden, True)


_KINDS: Mapping[str, Callable[..., TiedOutputLayer | None]] = {
    "FULLY_CONNECTED": _fully_connected,
    "BATCH_MATMUL": _batch_matmul,
}
