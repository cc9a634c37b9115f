"""Low-rank fits reach the smallest error of their rank, which `numpy.linalg.svd` gives."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.errors import BadInputError
from edge_embed.fitting import low_rank
from edge_embed.fitting.next_layer import directions

ROUNDING = 1e-6  # of the table's norm: the cores are float32


def error_of(layer: torch.nn.Module, rows: np.ndarray, weights: np.ndarray) -> float:
    difference = layer(torch.arange(len(rows))).detach().double().numpy() - rows
    return float(np.linalg.norm(np.sqrt(weights)[:, None] * difference))


@given(
    n=st.integers(1, 40),
    dim=st.integers(1, 12),
    rank=st.integers(1, 14),
    scale=st.sampled_from([1e-10, 1.0, 1e10]),
    is_counted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_low_rank_fit_reaches_smallest_error(
    n: int, dim: int, rank: int, scale: float, is_counted: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    rows = scale * random.standard_normal((n, dim))
    counts = random.integers(0, 5, n) if is_counted else np.ones(n)
    counts[0] = 1  # some row has to count
    layer = low_rank.fit(rows, rank, counts=torch.from_numpy(counts) if is_counted else None)
    weights = np.sqrt(counts)
    weighted = np.sqrt(weights)[:, None] * rows
    left_out = np.linalg.svd(weighted, compute_uv=False)[rank:]
    assert layer.ranks[1] <= min(rank, n, dim)
    assert error_of(layer, rows, weights) <= np.linalg.norm(left_out) + ROUNDING * np.linalg.norm(weighted)


@given(
    n=st.integers(1, 40),
    dim=st.integers(1, 12),
    outputs=st.integers(1, 14),
    rank=st.integers(1, 14),
    scale=st.sampled_from([1e-6, 1.0, 1e6]),
    is_counted=st.booleans(),
    seed=st.integers(0, 99),
)
def test_fit_for_next_layer_reaches_smallest_error_behind_it(
    n: int, dim: int, outputs: int, rank: int, scale: float, is_counted: bool, seed: int
) -> None:
    random = np.random.default_rng(seed)
    rows, weight = scale * random.standard_normal((n, dim)), random.standard_normal((outputs, dim))
    counts = random.integers(0, 5, n) if is_counted else np.ones(n)
    counts[0] = 1  # some row has to count
    given = {"counts": torch.from_numpy(counts)} if is_counted else {}
    layer = low_rank.fit(rows, rank, directions=directions(torch.from_numpy(weight)), **given)
    difference = layer(torch.arange(n)).detach().double().numpy() - rows
    roots = counts[:, None] ** 0.25  # of the weights, which are roots of counts
    left_out = np.linalg.svd(roots * rows @ weight.T, compute_uv=False)[rank:]
    size = np.linalg.norm(roots * rows) * np.linalg.norm(weight)
    assert np.linalg.norm(roots * difference @ weight.T) <= np.linalg.norm(left_out) + 2e-3 * size


def test_rank_of_next_layer_is_enough_for_its_outputs() -> None:
    random = np.random.default_rng(0)
    rows, weight = random.standard_normal((200, 16)), random.standard_normal((3, 16))
    errors = []
    for reads in ({}, {"directions": directions(torch.from_numpy(weight))}):
        layer = low_rank.fit(rows, 3, **reads)
        found = layer(torch.arange(200)).detach().double().numpy()
        errors.append(np.linalg.norm((found - rows) @ weight.T) / np.linalg.norm(rows @ weight.T))
    assert errors[0] > 0.5
    assert errors[1] < 1e-3


def test_rare_rows_keep_the_direction_that_they_share() -> None:
    """One row occurs as often as 50 others together; weights by frequency alone would give it the only direction."""
    rows = np.vstack([1.2 * np.eye(2)[0], np.tile(np.eye(2)[1], (50, 1))])
    layer = low_rank.fit(rows, 1, counts=torch.tensor([50] + 50 * [1]))
    np.testing.assert_allclose(layer(torch.arange(1, 51)).detach(), rows[1:], atol=ROUNDING)


def test_rows_without_counts_are_projected_on_rank_of_others() -> None:
    rows = np.eye(4)[[0, 0, 1, 2]] + np.eye(4)[[1, 1, 0, 0]]
    layer = low_rank.fit(rows, 1, counts=torch.tensor([5, 5, 0, 0]))
    found = layer(torch.arange(4)).detach().numpy()
    np.testing.assert_allclose(found[:3], rows[:3], atol=ROUNDING)
    np.testing.assert_allclose(found[3], rows[0] / 2, atol=ROUNDING)  # its part in the direction of the others


def test_padding_row_is_zero_and_has_no_weight() -> None:
    rows = np.vstack([100 * np.eye(3)[2], np.eye(3)[[0, 0]]])
    layer = low_rank.fit(rows, 1, padding_idx=0)
    np.testing.assert_allclose(layer(torch.arange(3)).detach(), [[0, 0, 0], *rows[1:]], atol=ROUNDING)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rank": 0}, "rank"),
        ({"rank": 1.5}, "rank"),
        ({"rank": 1, "padding_idx": 3}, "padding_idx"),
        ({"rank": 1, "counts": torch.tensor([1, 2])}, "counts: got 2, expected 3"),
        ({"rank": 1, "counts": torch.tensor([0, 0, 0])}, "counts: got only zeros"),
    ],
)
def test_bad_input_names_what_was_expected(given: dict[str, object], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        low_rank.fit(np.ones((3, 2)), **given)
