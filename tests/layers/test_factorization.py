"""Automatic shapes of tensor trains are those in the paper's tables."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.layers.factorization import column_shape, row_shape


@pytest.mark.parametrize(
    ("rows", "shape"),
    [
        (25_000, (25, 30, 40)),
        (25_000, (10, 10, 15, 20)),
        (25_000, (5, 5, 5, 5, 6, 8)),
        (17_200, (24, 25, 30)),
        (17_200, (10, 10, 12, 15)),
        (17_200, (4, 5, 5, 5, 6, 6)),
        (32_768, (32, 32, 32)),
        (267_735, (60, 60, 75)),
    ],
)
def test_row_shapes_match_paper(rows, shape):
    """The rows are those of tables 1, 2 and 3."""
    assert row_shape(rows, len(shape)) == shape


@pytest.mark.parametrize(
    ("width", "shape"), [(256, (4, 8, 8)), (256, (4, 4, 4, 4)), (1024, (8, 8, 16)), (512, (8, 8, 8)), (7, (1, 1, 7))]
)
def test_column_shapes_match_paper(width, shape):
    assert column_shape(width, len(shape)) == shape


@given(st.integers(1, 300), st.integers(2, 4))
def test_column_shapes_are_most_even_factorisations(width, count):
    """Every sequence of divisors is compared."""
    divisors = [factor for factor in range(1, width + 1) if width % factor == 0]
    every = [f for f in itertools.combinations_with_replacement(divisors, count) if math.prod(f) == width]

    def entropy(factors: tuple[int, ...]) -> float:
        return -sum(f / sum(factors) * math.log(f / sum(factors)) for f in factors)

    assert entropy(column_shape(width, count)) == pytest.approx(max(map(entropy, every)), abs=1e-9)


@given(st.integers(1, 10**7), st.integers(2, 6))
def test_row_shapes_waste_less_than_factor_two(rows, count):
    shape = row_shape(rows, count)
    assert len(shape) == count
    assert list(shape) == sorted(shape)
    assert rows <= math.prod(shape) < 2 * rows + 10
