"""``norm_eps``, ``norm_momentum`` and ``value_gradient`` of `DPQEmbedding`, against the formulas."""

import io

import numpy as np
import pytest
import torch
from torch import nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.ops.dpq_distance import affine, responses

N, D, CODES, GROUPS = 40, 12, 5, 3
IDS = torch.arange(N)


def make(**options: object) -> edge_embed.DPQEmbedding:
    torch.manual_seed(1)
    return edge_embed.DPQEmbedding(N, D, CODES, GROUPS, **options)


def distances(layer: edge_embed.DPQEmbedding) -> torch.Tensor:
    """Return the distances without a norm, [D, N, K]."""
    return responses(layer.query, affine(layer._keys(), layer.metric), layer.metric)


@pytest.mark.parametrize("eps", [1e-8, 1e-5, 1e-3, 1.0])
@pytest.mark.parametrize("norm", [True, "per_group"])
def test_gradient_in_training_matches_batch_norm_with_this_eps(eps, norm):
    layer = make(distance_norm=norm, norm_eps=eps, dtype=torch.float64)
    torch_norm = nn.BatchNorm1d(CODES if norm is True else GROUPS * CODES, eps=eps, affine=False, dtype=torch.float64)
    found = distances(layer)
    if norm is True:
        normed = torch_norm(found.flatten(0, 1)).unflatten(0, (GROUPS, N))
    else:
        normed = torch_norm(found.transpose(0, 1).flatten(1)).unflatten(1, (GROUPS, CODES)).transpose(0, 1)
    soft = (normed.softmax(-1) @ layer.value).transpose(0, 1).flatten(1)
    gradient = torch.randn(N, D, dtype=torch.float64)
    (wanted,) = torch.autograd.grad((soft * gradient).sum(), layer.query)
    (got,) = torch.autograd.grad((layer(IDS) * gradient).sum(), layer.query)
    torch.testing.assert_close(got, wanted, rtol=1e-6, atol=1e-9 * float(wanted.abs().max()))


@pytest.mark.parametrize("momentum", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("eps", [1e-8, 1e-5, 1e-3])
def test_codes_in_eval_mode_and_packed_form_match_batch_norm(eps, momentum):
    """A checkpoint and the packed form, which store no options, give the same codes."""
    layer = make(norm_eps=eps, norm_momentum=momentum, init_scale=0.05)
    torch_norm = nn.BatchNorm1d(CODES, eps=eps, momentum=momentum, affine=False)
    for _ in range(3):
        ids = torch.randint(0, N, (30,)).unique()
        layer(ids)
        torch_norm(distances(layer)[:, ids].detach().flatten(0, 1))
    torch_norm.eval()
    wanted = torch_norm(distances(layer).detach().flatten(0, 1)).unflatten(0, (GROUPS, N)).argmax(-1).T  # [N, D]
    np.testing.assert_array_equal(layer.eval().to_packed().codes_of(range(N)), wanted.numpy())
    buffer = io.BytesIO()
    torch.save(layer.state_dict(), buffer)
    buffer.seek(0)
    other = make(norm_eps=eps)
    other.load_state_dict(torch.load(buffer))
    assert torch.equal(other.eval()(IDS), layer(IDS))


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("temperature", [1.0, 0.5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_value_gradient_softmax_matches_eq_5_as_printed(shared, temperature, dtype):
    options = {"share_subspaces": shared, "distance_norm": False, "init_scale": 1.0, "dtype": dtype}
    layer = make(value_gradient="softmax", temperature=temperature, padding_idx=3, **options)
    gradient = torch.randn(N, D, dtype=dtype)
    gradient[3] = 0
    probability = (distances(layer) / temperature).softmax(-1)
    soft = (probability @ layer.value).transpose(0, 1).flatten(1)
    names = ("query", "key", "value")
    wanted = torch.autograd.grad((soft * gradient).sum(), [layer.get_parameter(name) for name in names])
    rows = layer(IDS)
    got = torch.autograd.grad((rows * gradient).sum(), [layer.get_parameter(name) for name in names])
    for name, one, other in zip(names, got, wanted, strict=True):
        torch.testing.assert_close(one, other, msg=lambda text, name=name: f"{name}: {text}")
    assert torch.equal(rows, layer.eval()(IDS))  # the forward pass gives the value of the code for either gradient
    assert all((value != 0).all() for value in got[2])


def test_value_gradient_default_reaches_selected_value_only():
    layer = make(distance_norm=False, init_scale=1.0)
    layer(IDS[:1]).sum().backward()
    assert ((layer.value.grad != 0).any(-1).sum(-1) == 1).all()  # one of K in each group


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"norm_eps": 0}, "norm_eps must be 1e-8 to 1, got 0"),
        ({"norm_eps": float("nan")}, "norm_eps must be 1e-8 to 1, got nan"),
        ({"norm_momentum": 0}, "norm_momentum must be above 0 and at most 1, got 0"),
        ({"norm_momentum": 1.5}, "norm_momentum must be above 0 and at most 1, got 1.5"),
        ({"value_gradient": "all"}, 'value_gradient must be "selected" or "softmax", got \'all\''),
        ({"value_gradient": "softmax", "variant": "vq"}, "got 'softmax' with variant \"vq\""),
    ],
)
def test_impossible_options_are_refused(options, message):
    with pytest.raises(BadInputError, match=message):
        make(**options)


def test_repr_shows_options_that_differ_from_default():
    assert "norm_" not in repr(make())
    shown = repr(make(norm_eps=1e-3, norm_momentum=0.01, value_gradient="softmax"))
    assert "norm_eps=0.001, norm_momentum=0.01, value_gradient='softmax'" in shown
