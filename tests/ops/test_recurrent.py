"""Recurrent layers as opaque operators: the same numbers as torch's layers, and clear refusals."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from edge_embed.errors import BadInputError
from edge_embed.ops import recurrent

LAYERS = {
    "lstm": (nn.LSTM, {}),
    "gru": (nn.GRU, {}),
    "rnn_tanh": (nn.RNN, {}),
    "rnn_relu": (nn.RNN, {"nonlinearity": "relu"}),
}
OPTIONS = [{}, {"batch_first": True, "num_layers": 2, "bidirectional": True, "dropout": 0.5}, {"bias": False}]


def called_operators(function: object, *args: object) -> list[str]:
    """Return the names of the operators of the package that a call runs."""
    names: list[str] = []

    class Record(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.namespace == "edge_embed":
                names.append(func._opname)
            return func(*args, **(kwargs or {}))

    with Record():
        function(*args)
    return names


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("given_state", [True, False])
@torch.no_grad()
def test_recurrent_operator_equals_layer_of_torch(name, options, batched, given_state):
    torch.manual_seed(0)
    kind, extra = LAYERS[name]
    layer = kind(3, 4, **options, **extra).eval()
    x = torch.randn(5, 2, 3) if batched else torch.randn(5, 3)
    states = layer.num_layers * (2 if layer.bidirectional else 1)
    batch = (x.shape[0] if layer.batch_first else x.shape[1],) if batched else ()
    state = torch.randn(states, *batch, 4)
    arguments = [x] if not given_state else [x, (state, -state) if name == "lstm" else state]
    expected = layer(*arguments)
    with recurrent.opaque_recurrence():
        got = layer(*arguments)
        assert called_operators(layer, *arguments) == [name]
    torch.testing.assert_close(got, expected, rtol=0, atol=0)
    assert layer(*arguments)[0].equal(expected[0])  # the mode has ended
    assert called_operators(layer, *arguments) == []


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("options", OPTIONS)
def test_recurrent_operator_has_right_shapes_on_meta(name, options):
    kind, extra = LAYERS[name]
    layer = kind(3, 4, device="meta", **options, **extra).eval()
    x = torch.empty(5, 2, 3, device="meta")
    expected = kind(3, 4, **options, **extra)(torch.zeros(5, 2, 3))
    with recurrent.opaque_recurrence():
        got = layer(x)
    assert got[0].shape == expected[0].shape
    flat = [got[1], expected[1]] if name != "lstm" else [got[1][1], expected[1][1]]
    assert flat[0].shape == flat[1].shape


@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_operators_pass_checks_of_torch(name):
    kind, extra = LAYERS[name]
    layer = kind(3, 4, 2, bidirectional=True, **extra)
    weights = [weight.detach() for weight in layer._flat_weights]
    state = torch.randn(4, 2, 4)
    arguments = (torch.randn(5, 2, 3), [state, state.clone()] if name == "lstm" else state, weights)
    torch.library.opcheck(
        recurrent.OPERATORS[name],
        (*arguments, True, 2, 0.0, False, True, False),
        test_utils=["test_schema", "test_faketensor", "test_aot_dispatch_dynamic"],
    )


def test_projections_are_refused_with_remedy():
    layer = nn.LSTM(3, 4, proj_size=2)
    with recurrent.opaque_recurrence(), pytest.raises(BadInputError, match=r"proj_size=2 .*Linear layer after"):
        layer(torch.randn(5, 2, 3))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences_are_refused_with_remedy(kind):
    lengths = torch.tensor([5, 3])
    with recurrent.opaque_recurrence(), pytest.raises(BadInputError, match=r"packed sequences .*padded batch"):
        pack_padded_sequence(torch.randn(5, 2, 3), lengths)
    packed = pack_padded_sequence(torch.randn(5, 2, 3), lengths)
    with recurrent.opaque_recurrence(), pytest.raises(BadInputError, match=r"packed sequences .*padded batch"):
        kind(3, 4)(packed)
