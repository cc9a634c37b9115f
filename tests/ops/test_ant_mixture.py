"""Mixtures of anchor sets: weights and rows by the formulas in float64, and their linear form."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_embed.errors import BadInputError
from edge_embed.ops import ant_mixture

MIXINGS = ["linear", "softmax", "sparsemax"]
SETS = [[5], [1, 4], [2, 2, 1]]


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def table(rows: int, columns: int = 5, dim: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Return a transform with zeros, negative and equal entries, and anchors of both signs, in float64."""
    transform = torch.randn(rows, columns, dtype=torch.float64).mul(2).round(decimals=1)
    return transform, torch.randn(columns, dim, dtype=torch.float64)


def nearest_on_simplex(scores: np.ndarray) -> np.ndarray:
    """Return the projection by bisection of the threshold at which max(scores - threshold, 0) sums to one."""
    low, high = scores.max() - 1, scores.max()
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if np.maximum(scores - middle, 0).sum() > 1 else (low, middle)
    return np.maximum(scores - low, 0)


def mixed_by_hand(transform: np.ndarray, sizes: list[int], mixing: str) -> np.ndarray:
    weights = np.maximum(transform, 0)
    for row in weights:
        for part in np.split(row, np.cumsum(sizes)[:-1]):
            if mixing == "softmax":
                part[...] = np.exp(part) / np.exp(part).sum()
            elif mixing == "sparsemax":
                part[...] = nearest_on_simplex(part)
    return weights


@pytest.mark.parametrize("mixing", MIXINGS)
@pytest.mark.parametrize("sizes", SETS)
def test_weights_rows_and_linear_form_match_formula(sizes, mixing):
    transform, anchors = table(40)
    expected = mixed_by_hand(transform.numpy(), sizes, mixing)
    np.testing.assert_allclose(ant_mixture.mixed(transform, sizes, mixing).numpy(), expected, atol=1e-12)
    weights, all_anchors = ant_mixture.linear_form(transform, anchors, sizes, mixing)
    rows = expected @ anchors.numpy()
    np.testing.assert_allclose((weights @ all_anchors).numpy(), rows, atol=1e-12)
    np.testing.assert_allclose(
        ant_mixture.mixture_rows(torch.arange(40), transform, anchors, sizes, mixing, None).numpy(), rows, atol=1e-12
    )
    assert (weights >= 0).all()
    if mixing != "linear":  # the weights of each set sum to one, with the mean anchor
        np.testing.assert_allclose(weights.sum(-1).numpy(), len(sizes), atol=1e-12)


def test_linear_form_of_softmax_is_as_sparse_as_transform():
    """Each weight above the smallest of its row and set has an entry, and so has the mean anchor of each set."""
    transform, anchors = table(200)
    for sizes in SETS:
        weights, all_anchors = ant_mixture.linear_form(transform, anchors, sizes, "softmax")
        parts = transform.clamp(min=0).split(sizes, -1)
        above = sum(int((part > part.amin(-1, keepdim=True)).sum()) for part in parts)
        assert int((weights > 0).sum()) == above + 200 * len(sizes) <= transform.numel()
        assert (weights[:, :5] > 0).any()
        assert all_anchors.shape == (5 + len(sizes), 4)
        for mean, part in zip(all_anchors[5:], anchors.split(sizes), strict=True):
            torch.testing.assert_close(mean, part.mean(0))


@given(st.lists(st.floats(-1e4, 1e4), min_size=1, max_size=9))
@settings(deadline=None)
def test_sparsemax_is_nearest_point_of_simplex(scores):
    found = ant_mixture.sparsemax(torch.tensor(scores, dtype=torch.float64)).numpy()
    np.testing.assert_allclose(found, nearest_on_simplex(np.array(scores)), atol=1e-9)
    assert found.sum() == pytest.approx(1)


@pytest.mark.parametrize("mixing", MIXINGS)
def test_gradients_of_mixture_match_finite_differences(mixing):
    transform, anchors = torch.rand(3, 5, dtype=torch.float64) + 0.1, table(1)[1]
    transform.requires_grad_()
    assert torch.autograd.gradcheck(lambda t: ant_mixture.mixed(t, [2, 3], mixing) @ anchors, transform)


@pytest.mark.parametrize("mixing", MIXINGS)
@pytest.mark.parametrize(
    "ids", [torch.tensor(3), torch.tensor([[1, 0, 5]]), torch.zeros(0, dtype=torch.int64)], ids=str
)
@pytest.mark.parametrize("padding_idx", [None, 1])
def test_mixture_operator_passes_checks_of_torch(ids, padding_idx, mixing):
    """Torch checks the schema, fake tensors and dynamic tracing."""
    transform, anchors = (tensor.float() for tensor in table(6))
    torch.library.opcheck(ant_mixture.MIXTURE.rows, (ids, transform, anchors, [2, 3], mixing, padding_idx))


@pytest.mark.parametrize("mixing", MIXINGS)
def test_gradients_of_rows_equal_those_of_dense_weights(mixing):
    """Covers entries of zero, which share the minimum of their row."""
    transform, anchors = table(40)
    transform = transform.clamp(min=0).requires_grad_()
    anchors.requires_grad_()
    weight = torch.randn(40, 4, dtype=torch.float64)
    rows = ant_mixture.mixture_rows(torch.arange(40), transform, anchors, [2, 3], mixing, None)
    plain = ant_mixture.mixed(transform, [2, 3], mixing) @ anchors
    got, expected = (torch.autograd.grad((found * weight).sum(), [transform, anchors]) for found in (rows, plain))
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
@pytest.mark.parametrize("mixing", ["softmax", "sparsemax"])
def test_nonfinite_entries_stay_nonfinite_in_linear_form(mixing, bad):
    """Packing then refuses the row."""
    transform, anchors = table(3)
    transform[1, 2] = bad
    weights, _ = ant_mixture.linear_form(transform, anchors, [2, 3], mixing)
    assert weights[[0, 2]].isfinite().all()
    assert not weights[1].isfinite().all()


@pytest.mark.parametrize(
    ("sizes", "mixing", "message"),
    [
        ([2, 2], "softmax", r"got sets of \[2, 2\] anchors, a transform \[1, 5\], anchors \[5, 4\], expected"),
        ([5, 0], "linear", r"got sets of \[5, 0\] anchors"),
        ([], "linear", r"got sets of \[\] anchors"),
        ([2, 3], "entmax", "mixing must be one of linear, softmax, sparsemax, got 'entmax'"),
    ],
)
def test_invalid_arguments_of_mixture_are_refused(sizes, mixing, message):
    with pytest.raises(BadInputError, match=message):
        ant_mixture.mixture_rows(torch.tensor([0]), *table(1), sizes, mixing, None)
