"""Random ids: in range, never all zero, distributed as their names say."""

import numpy as np
import pytest

from edge_embed.validation.ids import draw


@pytest.mark.parametrize("distribution", ["uniform", "zipf"])
@pytest.mark.parametrize("num_embeddings", [1, 2, 7, 1000])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (4, 5)])
def test_ids_are_in_range_and_not_all_zero(distribution, num_embeddings, shape):
    for seed in range(50):
        ids = draw(np.random.default_rng(seed), distribution, num_embeddings, shape, np.int32)
        assert ids.dtype == np.int32
        assert ids.shape == shape
        assert ((ids >= 0) & (ids < num_embeddings)).all()
        assert ids.any() or not ids.size or num_embeddings == 1


def test_uniform_ids_reach_every_row_equally():
    counts = np.bincount(draw(np.random.default_rng(0), "uniform", 10, (10_000,)), minlength=10)
    assert counts.min() > 850
    assert counts.max() < 1150


def test_zipf_ids_follow_their_law():
    n = 1000
    counts = np.bincount(draw(np.random.default_rng(0), "zipf", n, (200_000,)), minlength=n)
    for row in (0, 1, 4):
        expected = 200_000 * np.log((row + 2) / (row + 1)) / np.log(n + 1)
        assert counts[row] == pytest.approx(expected, rel=0.05)
    assert counts[n - 100 :].any()
