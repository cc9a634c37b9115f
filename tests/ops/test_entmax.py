"""Sparse activations: kernels and torch against each other, the entmax package and finite differences."""

import itertools
import math
from collections.abc import Callable
from functools import partial

import entmax as package
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.autograd import forward_ad

from edge_embed.errors import BadInputError
from edge_embed.ops import training_library
from edge_embed.ops.entmax import defined, entmax, entmax15, sparsemax, topk_sparsemax

ALPHAS = (1.0, 1 + 2**-20, 1.01, 1.25, 1.5, 1.75, 2.0)
INF, NAN = math.inf, math.nan


def random(*shape: int, scale: float = 1.0, dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def exact(scores: Tensor, alpha: float) -> Tensor:
    """Return probabilities by bisection in float64, which also the exact paths are compared with."""
    return defined(scores.double(), torch.tensor([alpha], dtype=torch.float64))


@pytest.fixture(params=["kernels", "torch"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Compute float32 in the kernels or in torch."""
    if request.param == "torch":
        monkeypatch.setattr(training_library, "library", lambda: None)
    assert training_library.serves(torch.zeros(1)) == (request.param == "kernels")
    return str(request.param)


@st.composite
def rows(draw: st.DrawFn) -> Tensor:
    scale = draw(st.sampled_from([0.01, 1.0, 30.0]))
    return random(3, draw(st.integers(1, 70)), scale=scale, seed=draw(st.integers(0, 99)))


@pytest.mark.usefixtures("path")
class TestValues:
    @pytest.mark.parametrize("alpha", [*ALPHAS, 2.5, 4.0])
    @pytest.mark.parametrize("n", [1, 2, 17, 700, 30_000])
    def test_probabilities_are_within_1e_6_of_float64(self, alpha, n):
        for scale in (0.1, 1.0, 20.0):
            scores = random(2, n, scale=scale)
            torch.testing.assert_close(entmax(scores, alpha).double(), exact(scores, alpha), rtol=0, atol=1e-6)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    @pytest.mark.parametrize("alpha", [1.01, 1.5, 2.0])
    @pytest.mark.parametrize("scale", [0.0, 0.1, 1.0])
    def test_sum_of_30000_probabilities_is_1(self, alpha, dtype, scale):
        found = entmax(random(2, 30_000, scale=scale).to(dtype), alpha)
        assert found.dtype == dtype
        assert (found.double().sum(-1) - 1).abs().max() < 1e-3

    @given(rows(), st.sampled_from(ALPHAS))
    def test_probabilities_sum_to_1_in_the_order_of_scores(self, scores, alpha):
        found = entmax(scores, alpha)
        assert (found >= 0).all()
        torch.testing.assert_close(found.sum(-1), torch.ones(3), rtol=0, atol=1e-5)
        order = scores.argsort(-1)
        assert (found.gather(-1, order).diff() >= 0).all()

    @given(rows(), st.sampled_from(ALPHAS), st.floats(-50, 50))
    def test_shifted_scores_give_same_probabilities(self, scores, alpha, shift):
        wide = scores.double()
        torch.testing.assert_close(entmax(wide + shift, alpha), entmax(wide, alpha), rtol=0, atol=1e-10)

    @given(rows())
    def test_larger_alpha_gives_no_more_probabilities_above_0(self, scores):
        counts = [(entmax(scores, alpha) > 0).sum(-1) for alpha in (1.0, 1.2, 1.5, 1.8, 2.0, 3.0)]
        assert all((more >= fewer).all() for more, fewer in itertools.pairwise(counts))

    @pytest.mark.parametrize("alpha", [*ALPHAS, 3.0])
    def test_rows_with_minus_infinity_give_0_there(self, alpha):
        scores = random(4, 9)
        padded = torch.cat((scores, torch.full((4, 3), -INF)), -1)
        found = entmax(padded, alpha)
        torch.testing.assert_close(found[:, :9], entmax(scores, alpha), rtol=0, atol=1e-6)
        assert (found[:, 9:] == 0).all()
        assert torch.equal(found, entmax(torch.where(padded == -INF, 0, padded), alpha, mask=padded != -INF))

    @pytest.mark.parametrize("alpha", [*ALPHAS, 3.0])
    @pytest.mark.parametrize("values", [[NAN, 1, 0], [INF, 1, 0], [-INF, -INF, -INF], [NAN, INF, -INF]])
    def test_rows_without_a_probability_are_nan(self, alpha, values):
        found = entmax(torch.tensor([values, [0.0, 1, 2]]), alpha)
        assert found[0].isnan().all()
        assert found[1].isfinite().all()
        assert all(topk_sparsemax(torch.tensor(values), k).isnan().all() for k in (1, 2, 3))

    @pytest.mark.parametrize("alpha", ALPHAS)
    def test_equal_scores_share_the_probability(self, alpha):
        for value in (0.0, -3e38, 3e38):
            found = entmax(torch.full((1000,), value), alpha)
            torch.testing.assert_close(found, torch.full((1000,), 1e-3), rtol=1e-4, atol=0)
        assert entmax(torch.tensor(7.0), alpha) == 1
        assert entmax(torch.empty(3, 0), alpha).shape == (3, 0)
        assert entmax(torch.empty(0, 3), alpha).shape == (0, 3)

    def test_alpha_of_each_head_gives_that_of_a_number(self):
        scores, alphas = random(2, 3, 4, 5), [1.0, 1.5, 2.0]
        found = entmax(scores, torch.tensor(alphas)[:, None, None])
        for head, alpha in enumerate(alphas):
            torch.testing.assert_close(found[:, head], entmax(scores[:, head], alpha), rtol=0, atol=1e-6)

    @pytest.mark.parametrize("dim", [0, -1])
    def test_score_without_dimension_keeps_its_shape(self, dim):
        for function in (sparsemax, entmax15, entmax, partial(topk_sparsemax, k=1)):
            found = function(torch.tensor(3.0), dim=dim)
            assert (found.shape, float(found)) == ((), 1)

    @pytest.mark.parametrize("dim", [0, 1, -2, -3])
    def test_dimension_is_that_of_moved_scores(self, dim):
        scores, alpha = random(4, 5, 6), torch.tensor([1.3, 1.7])[torch.arange(6) % 2]
        assert torch.equal(sparsemax(scores, dim), sparsemax(scores.movedim(dim, -1)).movedim(-1, dim))
        moved = entmax(scores.movedim(dim, -1), alpha.reshape(6, 1) if dim in (0, 1, -2, -3) else alpha)
        assert torch.equal(entmax(scores, alpha, dim), moved.movedim(-1, dim))


class TestPackage:
    """The package is right for scores without minus infinity."""

    CASES = (
        (1.5, lambda scores, alpha: package.entmax15(scores, dim=-1)),
        (2.0, lambda scores, alpha: package.sparsemax(scores, dim=-1)),
        (1.2, lambda scores, alpha: package.entmax_bisect(scores, alpha, dim=-1)),
        (1.8, lambda scores, alpha: package.entmax_bisect(scores, alpha, dim=-1)),
    )

    @pytest.mark.parametrize(("alpha", "other"), CASES)
    def test_values_and_gradients_match_those_of_package(self, alpha: float, other: Callable[..., Tensor]):
        weights, results = random(6, 40, seed=1), []
        for function in (entmax, other):
            scores, of = random(6, 40).requires_grad_(), torch.tensor([[alpha]]).expand(6, 1).clone().requires_grad_()
            found = function(scores, of)
            (found * weights).sum().backward()
            results.append((found.detach(), scores.grad, of.grad))
        (ours, of_ours, alpha_of_ours), (theirs, of_theirs, alpha_of_theirs) = results
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-6)
        torch.testing.assert_close(of_ours, of_theirs, rtol=0, atol=1e-5)
        if alpha_of_theirs is not None:
            torch.testing.assert_close(alpha_of_ours, alpha_of_theirs, rtol=1e-3, atol=1e-5)


class TestGradients:
    @pytest.mark.parametrize("alpha", [1.0, 1 + 1e-6, 1.3, 1.5, 2.0, 2.5])
    def test_derivatives_match_finite_differences(self, alpha):
        scores = random(2, 6, dtype=torch.float64).requires_grad_()
        if alpha > 1:
            alphas = torch.full((2, 1), alpha, dtype=torch.float64).requires_grad_()
            assert torch.autograd.gradcheck(
                lambda scores, alphas: entmax(scores, alphas.clamp(min=1)), (scores, alphas)
            )
        assert torch.autograd.gradcheck(lambda scores: entmax(scores, alpha), scores)
        assert torch.autograd.gradgradcheck(lambda scores: entmax(scores, alpha), scores)

    def test_derivative_of_topk_sparsemax_matches_finite_differences(self):
        scores = random(2, 6, dtype=torch.float64).requires_grad_()
        assert torch.autograd.gradcheck(lambda scores: topk_sparsemax(scores, 3), scores)

    @pytest.mark.parametrize("alpha", ALPHAS)
    def test_kernels_give_gradients_of_float64(self, alpha):
        weights, results = random(3, 5, 90, seed=1), []
        for dtype in (torch.float32, torch.float64):
            scores = random(3, 5, 90).to(dtype).requires_grad_()
            alphas = torch.full((5, 1), alpha).to(dtype).requires_grad_()
            (entmax(scores, alphas) * weights).sum().backward()
            results.append((scores.grad.double(), alphas.grad.double()))
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)

    def test_second_derivative_of_float32_is_that_of_float64(self):
        found = []
        for dtype in (torch.float32, torch.float64):
            scores = random(4, 8).to(dtype).requires_grad_()
            (gradient,) = torch.autograd.grad(entmax15(scores).square().sum(), scores, create_graph=True)
            gradient.square().sum().backward()
            found.append(scores.grad.double())
        torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)

    @pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0])
    def test_forward_mode_gives_derivatives_of_backward_mode(self, alpha):
        scores, tensor = random(6), torch.tensor([alpha])
        for function in (
            lambda scores, alphas: entmax(scores, alpha),
            entmax,
            lambda scores, alphas: topk_sparsemax(scores, 3),
        ):
            for forward, backward in zip(
                torch.func.jacfwd(function, (0, 1))(scores, tensor),
                torch.func.jacrev(function, (0, 1))(scores, tensor),
                strict=True,
            ):
                torch.testing.assert_close(forward, backward)
        hessian = torch.func.hessian(lambda scores: entmax(scores, alpha).pow(3).sum())(scores)
        torch.testing.assert_close(hessian, hessian.T)
        with forward_ad.dual_level():
            dual = entmax(forward_ad.make_dual(scores, torch.ones(6)), alpha)
            torch.testing.assert_close(forward_ad.unpack_dual(dual).tangent, torch.zeros(6), rtol=0, atol=1e-6)

    def test_masked_scores_have_no_gradient(self):
        scores, mask = random(3, 8).requires_grad_(), torch.arange(8) < 5
        (entmax(scores, 1.4, mask=mask) * random(3, 8, seed=1)).sum().backward()
        assert (scores.grad[:, 5:] == 0).all()
        assert scores.grad[:, :5].abs().sum() > 0


class TestTorchTools:
    @pytest.mark.slow
    def test_compiled_functions_match_eager_ones(self):
        def run(scores: Tensor, alphas: Tensor) -> Tensor:
            return sparsemax(scores) + entmax15(scores) + entmax(scores, alphas) + topk_sparsemax(scores, 2)

        alphas, results = torch.tensor([[1.3], [1.6]]), []
        for function in (run, torch.compile(run, backend="aot_eager", fullgraph=True)):
            scores, learned = random(2, 7).requires_grad_(), alphas.clone().requires_grad_()
            found = function(scores, learned)
            found.square().sum().backward()
            results.append((found.detach(), scores.grad, learned.grad))
        torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)

    def test_scores_may_be_changed_in_place_and_result_is_no_view(self):
        for function in (sparsemax, lambda scores: sparsemax(scores, 0)):
            leaf = random(3, 7).requires_grad_()
            scores = leaf * 1
            found = function(scores)
            scores.add_(100)
            assert not found._is_view()
            found.pow(2).sum().backward()
            assert leaf.grad.isfinite().all()

    def test_alphas_unknown_while_recorded_give_nan(self):
        scores = random(2, 7)
        for value in (0.5, NAN, 4.5):
            found = torch.func.vmap(lambda row, value=value: entmax(row, torch.tensor(value)))
            compiled = torch.compile(entmax, backend="aot_eager", fullgraph=True)
            assert compiled(scores, torch.tensor(value)).isnan().all()
            with pytest.raises(BadInputError, match="alpha: got"):
                found(scores)

    def test_lazily_negated_scores_are_computed(self):
        scores = torch.complex(random(5), random(5, seed=1)).conj().imag
        assert scores.is_neg()
        assert torch.equal(entmax15(scores), entmax15(scores.clone().resolve_neg()))

    def test_vmap_gives_rows(self):
        scores = random(4, 7)
        for function in (sparsemax, entmax15, entmax):
            torch.testing.assert_close(torch.func.vmap(function)(scores), function(scores))

    def test_autocast_gives_float32(self):
        scores = random(4, 7).bfloat16()
        with torch.autocast("cpu", torch.bfloat16):
            assert entmax15(scores).dtype == torch.float32
            assert entmax15(scores.double()).dtype == torch.float64
        assert entmax15(scores.to("meta")).dtype == torch.bfloat16

    def test_rows_of_two_threads_are_those_of_one(self):
        scores, found, before = random(700, 300), [], torch.get_num_threads()
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(entmax15(scores))
        torch.set_num_threads(before)
        assert torch.equal(*found)


class TestTopK:
    @given(rows(), st.integers(1, 70))
    def test_probabilities_are_those_of_largest_scores(self, scores, k):
        k = min(k, scores.shape[-1])
        found = topk_sparsemax(scores, k)
        values, ids = scores.topk(k)
        torch.testing.assert_close(found.gather(-1, ids), sparsemax(values), rtol=0, atol=1e-6)
        assert ((found > 0).sum(-1) <= k).all()
        torch.testing.assert_close(found.sum(-1), torch.ones(3), rtol=0, atol=1e-5)

    def test_first_of_equal_scores_count_as_largest(self):
        assert topk_sparsemax(torch.tensor([0.0, 1, 1, 1, 0]), 2).tolist() == [0, 0.5, 0.5, 0, 0]


BAD = (
    (
        lambda: sparsemax(torch.zeros(3, dtype=torch.int64)),
        "scores: got a torch.strided tensor of torch.int64, expected a dense",
    ),
    (lambda: sparsemax(torch.zeros(3).to_sparse()), "scores: got a torch.sparse_coo tensor of torch.float32, expected"),
    (lambda: sparsemax([1.0]), r"scores: got \[1.0\], expected a dense tensor of float16"),
    (lambda: sparsemax(torch.zeros(2, 3), 2), r"dim: got 2, expected an integer from -2 to 1 for scores \[2, 3\]"),
    (lambda: entmax15(torch.zeros(2, 3), -3), "dim: got -3, expected an integer from -2 to 1"),
    (lambda: sparsemax(torch.zeros(2, 3), mask=torch.zeros(2)), "mask: got a tensor of torch.float32, expected a bool"),
    (
        lambda: sparsemax(torch.zeros(2, 3), mask=torch.ones(4, dtype=torch.bool)),
        r"mask: got shape \[4\], expected a bool tensor that broadcasts to \[2, 3\]",
    ),
    (
        lambda: sparsemax(torch.zeros(3), mask=torch.ones(2, 3, dtype=torch.bool)),
        r"mask: got shape \[2, 3\], expected a bool tensor that broadcasts to \[3\]",
    ),
    (lambda: entmax(torch.zeros(3), 0.9), r"alpha: got 0.9, expected a number from 1 \(softmax\) to 4"),
    (lambda: entmax(torch.zeros(3), NAN), "alpha: got nan, expected a number from 1"),
    (lambda: entmax(torch.zeros(3), INF), "alpha: got inf, expected a number from 1"),
    (lambda: entmax(torch.zeros(3), 10**400), "alpha: got 1000.*, expected a number from 1"),
    (lambda: entmax(torch.zeros(3), torch.tensor(0.5)), "alpha: got 0.5, expected numbers from 1"),
    (
        lambda: entmax(torch.zeros(3), torch.tensor([1, 2])),
        r"alpha: got a tensor of torch.int64 \[2\], expected a float",
    ),
    (lambda: entmax(torch.zeros(2, 3), torch.ones(3)), r"alpha: got a tensor .*\[3\], expected .* to \[2, 1\]"),
    (
        lambda: topk_sparsemax(torch.zeros(3), 0),
        "k: got 0, expected an integer from 1 to 3, the number of scores along dim -1",
    ),
    (
        lambda: sparsemax(torch.nested.nested_tensor([torch.zeros(2), torch.zeros(3)])),
        "scores: got a nested tensor of torch.float32, expected a dense tensor",
    ),
    (lambda: topk_sparsemax(torch.zeros(3), 4), "k: got 4, expected an integer from 1 to 3"),
    (lambda: topk_sparsemax(torch.zeros(3), 1.5), "k: got 1.5, expected an integer from 1 to 3"),
)


@pytest.mark.parametrize(("call", "message"), BAD)
def test_bad_arguments_are_named(call: Callable[[], Tensor], message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        call()
