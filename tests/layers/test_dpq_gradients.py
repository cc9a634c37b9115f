"""Gradients in float64 against the paper's formulas, written out a second time in numpy.

SX, eq. (5): the rows are one-hot choices times V, so dV = onehot^T g. Query and key get the gradient of
softmax(norm(r)) V, which central differences of that soft sum check.
VQ, eq. (7): dq = g, and V gets no gradient from rows: test_regularization.py tests its loss.
"""

from collections.abc import Callable

import numpy as np
import pytest
import torch

from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.ops.dpq_distance import NORM_EPS

N, DIM, CODES, GROUPS = 6, 6, 4, 3
WIDTH = DIM // GROUPS
IDS = np.array([4, 1, 1, 5, 0, 2, 4, 4, 3])  # 0 is padding; 1 and 4 occur more than once


@pytest.fixture(params=[True, False], ids=["norm", "plain"])
def norm(request: pytest.FixtureRequest) -> bool:
    return request.param


@pytest.fixture
def layer(variant: str, share: bool, norm: bool) -> DPQEmbedding:
    return DPQEmbedding(N, DIM, CODES, GROUPS, variant, share, 0, norm, init_scale=1.0, dtype=torch.float64)


@pytest.fixture
def gradient() -> np.ndarray:
    """Return the gradient from the rest of the model: [B, d]."""
    return np.random.default_rng(5).standard_normal((len(IDS), DIM))


def distances(query: np.ndarray, key: np.ndarray, variant: str, norm: bool) -> np.ndarray:
    """Return distances of the ids that are no padding: [B', D, K], by loops over every pair of vectors."""
    result = np.empty((len(query), GROUPS, CODES))
    for row in range(len(query)):
        for group in range(GROUPS):
            q = query[row, group * WIDTH : (group + 1) * WIDTH]
            for code in range(CODES):
                k = key[group % len(key), code]
                result[row, group, code] = q @ k if variant == "sx" else -np.sum((q - k) ** 2)
    if norm:
        result -= result.mean((0, 1))
        result /= np.sqrt(np.mean(result**2, (0, 1)) + NORM_EPS)
    return result


def run(layer: DPQEmbedding, gradient: np.ndarray) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return the rows and every gradient."""
    rows = layer(torch.from_numpy(IDS))
    rows.backward(torch.from_numpy(gradient))
    return rows.detach().numpy(), {name: p.grad.numpy() for name, p in layer.named_parameters()}


def arrays(layer: DPQEmbedding) -> dict[str, np.ndarray]:
    return {name: parameter.detach().numpy().copy() for name, parameter in layer.named_parameters()}


def central_difference(function: Callable[[], float], array: np.ndarray, step: float = 1e-6) -> np.ndarray:
    result = np.empty_like(array)
    for place in np.ndindex(array.shape):
        kept = array[place]
        array[place] = kept + step
        above = function()
        array[place] = kept - step
        result[place] = (above - function()) / (2 * step)
        array[place] = kept
    return result


def choices(weights: dict[str, np.ndarray], variant: str, norm: bool) -> np.ndarray:
    """Return the codes of the ids that are no padding: [B', D]."""
    key = weights["key"] if variant == "sx" else weights["value"]
    return distances(weights["query"][IDS[IDS != 0]], key, variant, norm).argmax(-1)


def test_forward_rows_are_chosen_values(layer, gradient, variant, norm):
    weights = arrays(layer)
    rows, _ = run(layer, gradient)
    codes, value = choices(weights, variant, norm), weights["value"]
    expected = np.zeros_like(rows)
    expected[IDS != 0] = [
        np.concatenate([value[group % len(value), code[group]] for group in range(GROUPS)]) for code in codes
    ]
    np.testing.assert_allclose(rows, expected, rtol=1e-12, atol=1e-12)
    assert len(np.unique(codes)) > 1


@pytest.mark.parametrize("variant", ["sx"])
def test_softmax_value_gradient_is_one_hot(layer, gradient, norm):
    """dV[j, k] = sum of g over the rows whose group j chose k."""
    weights = arrays(layer)
    _, got = run(layer, gradient)
    expected = np.zeros_like(weights["value"])
    kept = gradient[IDS != 0].reshape(-1, GROUPS, WIDTH)
    for row, code in enumerate(choices(weights, "sx", norm)):
        for group in range(GROUPS):
            expected[group % len(expected), code[group]] += kept[row, group]
    np.testing.assert_allclose(got["value"], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("variant", ["sx"])
@pytest.mark.parametrize("name", ["query", "key"])
def test_softmax_query_and_key_gradients_match_soft_choice(layer, gradient, norm, name):
    weights = arrays(layer)
    _, got = run(layer, gradient)
    kept = gradient[IDS != 0].reshape(-1, GROUPS, WIDTH)
    value = np.broadcast_to(weights["value"], (GROUPS, CODES, WIDTH))

    def soft() -> float:
        score = np.exp(distances(weights["query"][IDS[IDS != 0]], weights["key"], "sx", norm))
        probability = score / score.sum(-1, keepdims=True)
        return float(np.einsum("bgk,gkw,bgw->", probability, value, kept))

    expected = central_difference(soft, weights[name])
    assert np.abs(expected).max() > 0.01
    np.testing.assert_allclose(got[name], expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("variant", ["vq"])
def test_centroid_query_gradient_passes_straight_through(layer, gradient):
    _, got = run(layer, gradient)
    expected = np.zeros((N, DIM))
    np.add.at(expected, IDS[IDS != 0], gradient[IDS != 0])
    np.testing.assert_allclose(got["query"], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("variant", ["vq"])
@pytest.mark.parametrize("scale", [0.0, 1.0, 100.0])
def test_centroids_get_no_gradient_from_rows(layer, gradient, norm, scale):
    """A gradient of zero exists, which DistributedDataParallel requires."""
    _, got = run(layer, scale * gradient)
    assert not got["value"].any()


@pytest.mark.parametrize("variant", ["sx"])
@pytest.mark.parametrize("norm", [False], indirect=True)
def test_value_gradient_in_eval_mode_is_that_of_lookup(layer):
    """Fine-tuning with fixed codes trains the values only."""
    layer.eval()
    assert torch.autograd.gradcheck(
        lambda value: torch.func.functional_call(layer, {"value": value}, (torch.from_numpy(IDS),)), (layer.value,)
    )
    layer(torch.from_numpy(IDS)).sum().backward()
    assert layer.query.grad is None
    assert layer.key.grad is None


@pytest.mark.parametrize("variant", ["vq"])
def test_gradients_accumulate_over_two_uses(layer, gradient):
    _, once = run(layer, gradient)
    layer.zero_grad()
    ids = torch.from_numpy(IDS)
    both = (layer(ids) + layer(ids)) / 2
    both.backward(torch.from_numpy(gradient))
    np.testing.assert_allclose(layer.query.grad.numpy(), once["query"], rtol=1e-12, atol=1e-12)


def test_gradients_can_be_differentiated_again(layer: DPQEmbedding, variant: str):
    """Gradient penalties need second gradients: those of the plain formula, eq. (5) or (7)."""
    weight = torch.randn(len(IDS), DIM, dtype=torch.float64, requires_grad=True)
    ids = torch.from_numpy(IDS[IDS != 0])

    def plain() -> torch.Tensor:
        query = layer.query[ids]
        groups = query.unflatten(-1, (GROUPS, WIDTH)).transpose(0, 1)
        keys = layer.value if variant == "vq" else layer.key
        response = groups @ keys.transpose(1, 2)
        if variant == "vq":
            response = 2 * response - groups.square().sum(-1, keepdim=True) - keys.square().sum(-1).unsqueeze(1)
        if layer.distance_norm:
            response = response - response.mean((0, 1))
            response = response * torch.rsqrt(response.square().mean((0, 1)) + NORM_EPS)
        one_hot = torch.nn.functional.one_hot(response.argmax(-1), CODES).double()
        if variant == "vq":
            selected = (one_hot @ layer.value).transpose(0, 1).flatten(1)
            return query + (selected - query).detach()
        soft = response.softmax(-1)
        return ((soft - (soft - one_hot).detach()) @ layer.value).transpose(0, 1).flatten(1)

    second = []
    for rows in (layer(ids), plain()):
        loss = (rows * weight[: len(ids)]).square().sum()
        (first,) = torch.autograd.grad(loss, layer.query, create_graph=True)
        wanted = [weight, *(p for name, p in layer.named_parameters() if variant == "sx" or name == "query")]
        second.append(torch.autograd.grad(first.square().sum(), wanted, materialize_grads=True))
    torch.testing.assert_close(*second)
