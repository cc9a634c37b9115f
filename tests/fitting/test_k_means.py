"""k-means: an error as low as that of scikit-learn, exact clusters, weights, and the same without kernels."""

import numpy as np
import pytest
import torch

from edge_embed.fitting import k_means as module
from edge_embed.fitting.k_means import improved, k_means

ONES = torch.ones(3000, dtype=torch.float64)


def points(width, seed=0):
    random = np.random.default_rng(seed)
    found = torch.from_numpy(random.standard_normal((3000, width)) * np.exp(random.standard_normal((3000, 1)))).float()
    return found - found.mean(0)


def error(value, each, weights=ONES):
    return float(torch.cdist(each.double(), value.double()).amin(1).square() @ weights)


@pytest.mark.parametrize(("width", "num_codes"), [(1, 8), (2, 64), (8, 16), (8, 300)])
def test_k_means_error_is_that_of_scikit_learn(width, num_codes):
    cluster = pytest.importorskip("sklearn.cluster", reason="scikit-learn is not installed (extra edge-embed[bench])")
    each = points(width)
    theirs = cluster.KMeans(num_codes, init="random", n_init=3, max_iter=300, tol=0, random_state=0).fit(each.numpy())
    ours = k_means(each, ONES, num_codes, 30, 3, np.random.default_rng(0))
    assert ours.shape == (num_codes, width)
    assert error(ours, each) <= 1.03 * theirs.inertia_


@pytest.mark.parametrize("runs", [1, 3])
@pytest.mark.parametrize("weight", ["equal", "by number"])
def test_k_means_of_one_column_reaches_error_of_many_centroids(runs, weight):
    """Panter and Dite: (integral of f^(1/3))^3 / 12 K^2, that is sqrt(3) pi / 2 K^2 of normal numbers."""
    each = torch.from_numpy(np.random.default_rng(0).standard_normal((100_000, 1))).float()
    weights = torch.ones(len(each), dtype=torch.float64)
    if weight == "by number":  # of another variance: numbers of density exp(-x^2 / 4) count as normal ones
        each *= 2**0.5
        weights = (-each.double().square() / 4).exp().flatten()
    found = k_means(each, weights, 256, 30, runs, np.random.default_rng(0))
    assert error(found, each, weights) / float(weights.sum()) <= 1.15 * 3**0.5 * np.pi / 2 / 256**2


def test_k_means_finds_separate_clusters_and_their_weighted_means():
    random = np.random.default_rng(0)
    centres = 100 * torch.eye(4)
    each = centres.repeat(50, 1) + torch.from_numpy(random.standard_normal((200, 4))).float()
    weights = torch.from_numpy(random.uniform(0.1, 5, 200))
    found = k_means(each, weights, 4, 30, 8, random)
    for number, centre in enumerate(centres):
        own = slice(number, None, 4)
        mean = weights[own] @ each[own].double() / weights[own].sum()
        nearest = found[(found - centre).square().sum(1).argmin()]
        torch.testing.assert_close(nearest.double(), mean, rtol=1e-5, atol=1e-5)


def test_improved_error_never_rises_with_iterations():
    each = points(4)
    first = each[:32]
    errors = [improved(each, ONES, first, number).error for number in (0, 2, 8, 30, 100)]
    assert errors == sorted(errors, reverse=True)
    value, stated = improved(each, ONES, first, 30)
    assert stated == pytest.approx(error(value, each), rel=1e-5)


def test_centroid_without_points_is_used_again():
    each = points(2)
    far = torch.full((30, 2), 1e4)
    value = improved(each, ONES, torch.cat((each[:2], far)), 30).value
    assert len(torch.cdist(each, value).argmin(1).unique()) == 32


def test_k_means_without_kernels_finds_equally_good_centroids(monkeypatch):
    each, weights = points(4), torch.linspace(0.1, 3, 3000, dtype=torch.float64)
    with_kernels = k_means(each, weights, 16, 30, 2, np.random.default_rng(0))
    monkeypatch.setattr(module.training_library, "serves", lambda *tensors: False)
    without = k_means(each, weights, 16, 30, 2, np.random.default_rng(0))
    assert error(without, each, weights) == pytest.approx(error(with_kernels, each, weights), rel=0.01)
