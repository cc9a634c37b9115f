"""Losses of sparse activations: their gradient is the probabilities less the target."""

import subprocess
import sys

import entmax as package
import pytest
import torch

import edge_embed
from edge_embed.errors import BadInputError

TARGET = torch.tensor([2, 0, -100, 6])


def scores_of(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (2 * torch.randn(4, 7, generator=torch.Generator().manual_seed(0))).to(dtype).requires_grad_()


@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
def test_gradient_of_loss_is_probabilities_less_target(alpha):
    scores = scores_of(torch.float64)
    edge_embed.entmax_loss(scores, TARGET, alpha, reduction="sum").backward()
    expected = edge_embed.entmax(scores.detach(), alpha)
    expected[torch.arange(4), TARGET.clamp(min=0)] -= 1
    expected[2] = 0
    torch.testing.assert_close(scores.grad, expected)
    assert torch.autograd.gradgradcheck(lambda scores: edge_embed.entmax_loss(scores, TARGET, alpha), scores)


def test_losses_match_those_of_package_and_cross_entropy():
    scores = scores_of()
    kept = TARGET >= 0
    for ours, theirs in (
        (edge_embed.sparsemax_loss, package.sparsemax_loss),
        (edge_embed.entmax_loss, package.entmax15_loss),
    ):
        got = ours(scores, TARGET, reduction="none")
        torch.testing.assert_close(got[kept], theirs(scores[kept], TARGET[kept]), rtol=1e-5, atol=1e-6)
        assert got[2] == 0
        torch.testing.assert_close(ours(scores, TARGET), got.sum() / 3)
    got = edge_embed.entmax_loss(scores.reshape(2, 2, 7), TARGET.reshape(2, 2), 1.0)
    torch.testing.assert_close(got, torch.nn.functional.cross_entropy(scores, TARGET))


def test_loss_of_a_class_ahead_by_its_margin_is_0():
    scores = torch.tensor([[3.0, 0, 1]])
    assert edge_embed.sparsemax_loss(scores, torch.tensor([0])) == 0
    assert edge_embed.entmax_loss(scores, torch.tensor([0])) == 0
    assert edge_embed.sparsemax_loss(scores.masked_fill(scores == 0, -torch.inf), torch.tensor([0])) == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            (torch.zeros(2, 3), torch.zeros(2)),
            r"target: got a tensor of torch.float32 \[2\], expected classes as an int64",
        ),
        ((torch.zeros(2, 3), torch.zeros(3, dtype=torch.int64)), r"target: got .* \[3\], expected .* \[2\]"),
        ((torch.zeros(2, 3), torch.tensor([0, 3])), "target: got class 3, expected 0 to 2, or -100"),
        ((torch.zeros(2, 3), torch.tensor([0, -1])), "target: got class -1, expected 0 to 2, or -100"),
        (
            (torch.zeros(2, 3).long(), torch.tensor([0, 1])),
            "scores: got a tensor of torch.int64 .* expected 16-bit or wider floats",
        ),
        (
            (torch.zeros(2, 3).to_sparse(), torch.tensor([0, 1])),
            "scores: got a sparse or nested tensor, expected a dense",
        ),
        (
            (torch.zeros(2, 3).to(torch.float8_e4m3fn), torch.tensor([0, 1])),
            "scores: got a tensor of torch.float8_e4m3fn .* expected 16-bit or wider floats",
        ),
        ((torch.zeros(2, 3), torch.tensor([0, 1]), 0.5), "alpha: got 0.5, expected a number from 1"),
        ((torch.zeros(2, 3), torch.tensor([0, 1]), 1.5, -100, "most"), "reduction: got 'most', expected one of mean"),
    ],
)
def test_bad_arguments_are_named(arguments, message):
    with pytest.raises(BadInputError, match=message):
        edge_embed.entmax_loss(*arguments)


# Another process, as inductor starts only if no test has imported Python's distutils.
COMPARE = """
import torch
import edge_embed

scores, target = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)).T.requires_grad_(), torch.arange(4)
loss = lambda scores: edge_embed.entmax_loss(scores, target, reduction="sum")
(expected,) = torch.autograd.grad(loss(scores), scores)
(got,) = torch.autograd.grad(torch.compile(loss)(scores), scores)
torch.testing.assert_close(got, expected)
"""


@pytest.mark.slow
def test_compiled_loss_of_transposed_scores_has_gradient_of_eager_one():
    subprocess.run([sys.executable, "-c", COMPARE], check=True)


def test_losses_of_samples_are_vectorised():
    scores, target = scores_of().detach(), TARGET
    grad = torch.func.vmap(torch.func.grad(lambda row, target: edge_embed.entmax_loss(row, target, reduction="sum")))
    expected = edge_embed.entmax15(scores)
    expected[torch.arange(4), TARGET.clamp(min=0)] -= 1
    expected[2] = 0
    torch.testing.assert_close(grad(scores, target), expected)
