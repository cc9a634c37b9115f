"""Directions that a next layer reads: lengths in them are those of its outputs."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edge_embed.fitting.next_layer import directions


@given(
    outputs=st.integers(1, 12),
    dim=st.integers(1, 8),
    scale=st.sampled_from([1e-12, 1.0, 1e12]),
    dtype=st.sampled_from([torch.float32, torch.float64, torch.bfloat16]),
    seed=st.integers(0, 99),
)
def test_lengths_are_those_of_outputs(outputs: int, dim: int, scale: float, dtype: torch.dtype, seed: int) -> None:
    random = torch.Generator().manual_seed(seed)
    weight = (scale * torch.randn(outputs, dim, generator=random)).to(dtype)
    rows = torch.randn(20, dim, generator=random, dtype=torch.float64)
    found = directions(weight)
    assert found is not None
    wide = weight.double()
    expected = (rows @ wide.T).square().sum(1) / wide.square().sum()
    torch.testing.assert_close((rows @ found).square().sum(1), expected, rtol=1e-5, atol=1e-5)
    assert torch.linalg.cond(found) < 1e4  # no direction is lost


@pytest.mark.parametrize("weight", [torch.zeros(3, 4), torch.full((3, 4), math.nan), torch.full((3, 4), math.inf)])
def test_weights_without_directions_have_none(weight: torch.Tensor) -> None:
    assert directions(weight) is None
