"""Frequencies of rows from ids and from the order of the rows."""

from typing import Any

import numpy as np
import pytest
import torch

from edge_embed.errors import BadInputError
from edge_embed.fitting.row_counts import SeenIds, counts_of


def test_counts_of_ids_are_their_occurrences() -> None:
    found = counts_of(SeenIds.of(np.array([[3, 0], [3, 1]], np.uint16)), 6)
    assert found.tolist() == [1, 1, 0, 2, 0, 0]


def test_counts_of_order_follow_zipf() -> None:
    assert counts_of("order", 4).tolist() == [4, 2, 4 / 3, 1]


@pytest.mark.parametrize("given", [torch.tensor([2, 0, 5]), [2.0, 0, 5], np.array([2, 0, 5], np.uint8)])
def test_counts_of_numbers_are_these_in_float64(given: Any) -> None:
    found = counts_of(given, 3)
    assert found is not None
    assert found.dtype == torch.float64
    assert found.tolist() == [2, 0, 5]
    assert counts_of(None, 3) is None


@pytest.mark.parametrize("total", [1e-3, 8.0, 1e6])
def test_relative_frequencies_are_counts_whose_smallest_is_one(total: float) -> None:
    found = counts_of(torch.tensor([5, 0, 1, 2], dtype=torch.float64) / total, 4)
    assert found is not None
    np.testing.assert_allclose(found, [5, 0, 1, 2] if total > 1 else [5000, 0, 1000, 2000], rtol=1e-12)


def test_relative_frequencies_stay_finite() -> None:
    for given in ([1.0, 5e-324], [0.0, 0.0], [1e308, 1e-308]):
        found = counts_of(torch.tensor(given, dtype=torch.float64), 2)
        assert found is not None
        assert found.isfinite().all()


def test_counts_of_ids_outside_table_are_refused() -> None:
    with pytest.raises(BadInputError, match="ids: got 3, expected 0 to 2: count ids of the same vocabulary"):
        counts_of(SeenIds.of(np.array([3])), 3)


def test_counts_of_unknown_text_are_refused() -> None:
    with pytest.raises(BadInputError, match="counts: got 'zipf', expected numbers"):
        counts_of("zipf", 3)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        (np.array([1.0]), "got float64"),
        (np.array([], np.int64), "at least one"),
        (np.array([0, -100]), "got -100, expected none below 0"),
        (np.array([1 << 40]), r"expected ids below 2\*\*31"),
    ],
)
def test_seen_ids_of_other_values_are_refused(ids: np.ndarray, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        SeenIds.of(ids)
