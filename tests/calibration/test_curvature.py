"""Random gradients have the curvature of the distance as their expected outer product."""

import pytest
import torch
from torch import Tensor

from edge_embed.calibration.curvature import Curvature
from edge_embed.calibration.distance import distance, probe

HIDDEN = torch.randn(5, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
ROWS = torch.randn(4, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def outputs(rows: Tensor) -> tuple[Tensor, ...]:
    return HIDDEN @ rows.view(4, 3).t(), (2 * HIDDEN[:2] * rows.view(4, 3)[:2]).tanh()


@pytest.mark.parametrize("logits_at", [[0], []])
def test_expected_outer_product_is_hessian_of_distance(logits_at: list[int]) -> None:
    expected = tuple(output.detach() for output in outputs(ROWS))
    hessian = torch.autograd.functional.hessian(
        lambda rows: distance(expected, outputs(rows), logits_at), ROWS.flatten()
    )
    random, found, count = torch.Generator().manual_seed(0), torch.zeros(12, 12, dtype=torch.float64), 8_000
    for _ in range(count):
        rows = ROWS.flatten().requires_grad_()
        (gradient,) = torch.autograd.grad(probe(outputs(rows), logits_at, random), rows)
        found += torch.outer(gradient, gradient) / count
    assert (found - hessian).norm() < 0.1 * hessian.norm()


def test_curvature_by_turned_rows_is_that_of_their_gradients() -> None:
    random = torch.Generator().manual_seed(0)
    rotation, _ = torch.linalg.qr(torch.randn(5, 5, generator=random))
    curvature, expected = Curvature(3, 5), Curvature(3, 5)
    for _ in range(4):
        gradient = torch.randn(3, 5, generator=random) * torch.arange(1, 6)
        curvature.add(gradient)
        expected.add(gradient @ rotation.t())  # rows E R^T, and E = E R^T R
    torch.testing.assert_close(curvature.turned(rotation).matrix(), expected.matrix())
    torch.testing.assert_close(curvature.turned(rotation).of_rows(), expected.of_rows())
    assert curvature.turned(None) is curvature


def test_curvature_of_rows_with_one_matrix_is_found_exactly() -> None:
    random = torch.Generator().manual_seed(0)
    factors, mixed = torch.tensor([1.0, 4.0, 9.0]), torch.randn(5, 5, generator=random)
    curvature = Curvature(3, 5)
    for _ in range(3_000):
        curvature.add(torch.randn(3, 5, generator=random) @ mixed * factors.sqrt()[:, None])
    expected = mixed.t() @ mixed / mixed.square().sum()
    assert (curvature.matrix() - 0.9 * expected - 0.1 * torch.eye(5) / 5).norm() < 0.05 * expected.norm()
    # Means of 3,000 random gradients.
    torch.testing.assert_close(curvature.of_rows() - 0.1, 3 * factors / factors.sum(), rtol=0.1, atol=0)
