"""Modules of sparse activations: those of the functions, and alphas that attention heads learn."""

import copy

import pytest
import torch

import edge_embed
from edge_embed.errors import BadInputError

SCORES = torch.randn(2, 3, 4, 5, generator=torch.Generator().manual_seed(0))
MASK = torch.ones(4, 5, dtype=torch.bool).tril(1)


def test_module_computes_its_function():
    for module, expected in (
        (edge_embed.Sparsemax(1), edge_embed.sparsemax(SCORES, 1)),
        (edge_embed.Entmax15(-2), edge_embed.entmax15(SCORES, -2)),
        (edge_embed.Entmax(1.2, 0), edge_embed.entmax(SCORES, 1.2, 0)),
        (edge_embed.TopKSparsemax(2, 3), edge_embed.topk_sparsemax(SCORES, 2, 3)),
    ):
        assert torch.equal(module(SCORES), expected)
        assert list(module.parameters()) == []
    assert torch.equal(edge_embed.Entmax15()(SCORES, MASK), edge_embed.entmax15(SCORES, mask=MASK))


def test_heads_learn_alphas_between_1_and_2():
    module = edge_embed.Entmax(1.25, num_heads=3)
    torch.testing.assert_close(module.alpha, torch.full((3,), 1.25))
    assert torch.allclose(module(SCORES, MASK), edge_embed.entmax(SCORES, 1.25, mask=MASK), atol=1e-6)
    optimizer = torch.optim.SGD(module.parameters(), 1e3)
    before = module(SCORES).square().sum()
    for _ in range(20):  # the sum of squares is largest where one probability is 1
        optimizer.zero_grad()
        (-module(SCORES).square().sum()).backward()
        optimizer.step()
    assert (module.alpha > 1.9).all()
    assert (module.alpha <= 2).all()
    assert module(SCORES).square().sum() > before


def test_alpha_of_nan_gives_nan():
    module = edge_embed.Entmax(num_heads=3)
    module.alpha_logit.data.fill_(torch.nan)
    assert module(SCORES).isnan().all()


def test_state_of_heads_is_kept_by_copies_and_state_dict():
    module = edge_embed.Entmax(1.7, num_heads=3)
    assert set(module.state_dict()) == {"alpha_logit"}
    loaded = edge_embed.Entmax(num_heads=3)
    loaded.load_state_dict(module.state_dict())
    for other in (loaded, copy.deepcopy(module)):
        assert torch.equal(other(SCORES), module(SCORES))
    assert edge_embed.Entmax(1.7).state_dict() == {}


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: edge_embed.Entmax(0.5), "alpha: got 0.5, expected a number from 1"),
        (
            lambda: edge_embed.Entmax(2.0, num_heads=3),
            "alpha: got 2.0, expected more than 1 and less than 2 for learned",
        ),
        (lambda: edge_embed.Entmax(num_heads=0), "num_heads: got 0, expected an integer of at least 1, or None"),
        (lambda: edge_embed.Entmax(dim=0, num_heads=3), "dim: got 0, expected -1 with num_heads"),
        (lambda: edge_embed.Entmax(num_heads=2)(SCORES), r"scores: got shape \[2, 3, 4, 5\], expected \[\*, 2, T, S\]"),
        (lambda: edge_embed.TopKSparsemax(0), "k: got 0, expected an integer of at least 1"),
        (lambda: edge_embed.TopKSparsemax(6)(SCORES), "k: got 6, expected an integer from 1 to 5"),
    ],
)
def test_bad_arguments_are_named(call, message):
    with pytest.raises(BadInputError, match=message):
        call()
