"""Rounding to bfloat16 that keeps sums: sums, distances, zeros, NaN, and the gradients of a plain conversion."""

import math
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from edge_embed.ops import entmax as module
from edge_embed.ops import sum_kept_rounding
from edge_embed.ops.entmax import entmax, entmax15, sparsemax, topk_sparsemax
from edge_embed.ops.sum_kept_rounding import rounded

FUNCTIONS = {
    "softmax": lambda scores: entmax(scores, 1.0),
    "alpha 1.01": lambda scores: entmax(scores, 1.01),
    "entmax15": entmax15,
    "sparsemax": sparsemax,
    "alpha 4": lambda scores: entmax(scores, 4.0),
    "top-k": lambda scores: topk_sparsemax(scores, min(3, scores.shape[-1])),
    "tensor": lambda scores: entmax(scores, torch.full((len(scores), 1), 1.3)),
    "dim 0": lambda scores: sparsemax(scores.T, 0).T,
    "mask": lambda scores: entmax15(scores, mask=torch.arange(scores.shape[-1]) % 3 < 2),
}


def random(*shape: int, scale: float = 1.0, seed: int = 0) -> Tensor:
    return scale * torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def sum_errors(q: Tensor) -> Tensor:
    return (q.double().sum(-1) - 1).abs()


def neighbours(p: Tensor) -> tuple[Tensor, Tensor]:
    """Return the bfloat16 numbers on both sides of float32 numbers, which are equal to exact ones."""
    lower = p.view(torch.int32) & -(1 << 16)
    upper = torch.where(lower.view(torch.float32) == p, lower, lower + (1 << 16))
    return lower.view(torch.float32), upper.view(torch.float32)


@st.composite
def probabilities(draw: st.DrawFn) -> Tensor:
    """Rows with numbers of all sizes, many equal ones and zeros."""
    n, seed = draw(st.integers(1, 300)), draw(st.integers(0, 10**6))
    power = draw(st.sampled_from([0.0, 0.1, 1.0, 3.0, 20.0]))
    numbers = torch.rand((5, n), generator=torch.Generator().manual_seed(seed), dtype=torch.float64) ** power
    numbers[:, 1:] *= torch.rand((5, n - 1), generator=torch.Generator().manual_seed(seed + 1)) >= draw(
        st.sampled_from([0.0, 0.5, 0.95])
    )
    numbers[:, 0] += draw(st.sampled_from([0.0, 0.5, 100.0, 1e4]))
    p = (numbers / numbers.sum(-1, keepdim=True)).float()
    return torch.where(p < 1e-30, 0, p)  # without subnormal numbers


class TestRounded:
    @given(probabilities())
    def test_sums_are_1_within_2_to_the_minus_10(self, p):
        assert sum_errors(rounded(p)).max() < 2**-10 + 1e-6

    @given(probabilities())
    def test_numbers_are_those_beside_exact_ones_below_a_half(self, p):
        p = p[p.amax(-1) <= 0.5]
        q, (lower, upper) = rounded(p).float(), neighbours(p)
        assert ((q == lower) | (q == upper)).all()

    @given(probabilities())
    def test_numbers_beside_one_above_a_half_share_its_error(self, p):
        p = p[p.amax(-1) > 0.5]
        q, is_large = rounded(p).float(), p > 0.5
        assert torch.equal(q[is_large], p.bfloat16().float()[is_large])
        small, change = torch.where(is_large, 0, p), torch.where(is_large, 0, q - p)
        ulps = small.frexp().exponent.sub(8).float().exp2() * (small > 0)
        assert (change.abs().sum(-1) <= 2**-9 - 2**-11 + 1.02 * ulps.sum(-1) + 1e-6).all()
        assert (q >= p / 4.1).all()

    @given(probabilities())
    def test_zeros_alone_are_zero(self, p):
        q = rounded(p)
        assert (q >= 0).all()
        assert torch.equal(q == 0, p.bfloat16() == 0)

    @given(probabilities())
    def test_rows_do_not_depend_on_selection(self, p):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sum_kept_rounding, "are_plain", lambda p: False)
            found = rounded(p)
        assert torch.equal(found, rounded(p))
        assert torch.equal(found[1:], rounded(p[1:]))

    def test_rows_near_1_stay_as_they_are(self):
        p = torch.tensor([[0.25, 0.75], [0.6, 0.4], [math.nan, math.nan], [1.0, 0.0]])
        q = rounded(p)
        assert torch.equal(q[[0, 3]].float(), p[[0, 3]])
        assert q[1].tolist() == [0.6015625, 0.3984375]
        assert q[2].isnan().all()

    def test_equal_numbers_differ_by_one_ulp(self):
        q = rounded(torch.full((30_000,), 1 / 30_000)).float()
        assert sum_errors(q) < 1e-6
        assert q.unique().diff().tolist() == [2**-22]

    def test_empty_rows_stay_empty(self):
        assert rounded(torch.empty(3, 0)).shape == (3, 0)
        assert rounded(torch.empty(0, 3)).shape == (0, 3)


@pytest.mark.parametrize("name", FUNCTIONS)
class TestActivations:
    @pytest.mark.parametrize("n", [2, 5, 64, 4096, 30_000])
    @pytest.mark.parametrize("scale", [0.0, 0.01, 0.1, 1.0, 20.0])
    def test_bfloat16_sums_to_1_within_a_thousandth(self, name, n, scale):
        found = FUNCTIONS[name](random(max(2, 2000 // n), n, scale=scale).bfloat16())
        assert found.dtype == torch.bfloat16
        assert sum_errors(found).max() < 1e-3

    def test_gradients_are_those_of_a_conversion(self, name, monkeypatch):
        results = []
        for function in (rounded, lambda p: p.bfloat16()):
            monkeypatch.setattr(module, "rounded", function)
            scores = random(60, 6).bfloat16().requires_grad_()
            found = FUNCTIONS[name](scores)
            (found * random(60, 6, seed=1)).sum().backward()
            tangent = torch.func.jvp(FUNCTIONS[name], (scores.detach(),), (random(60, 6, seed=2).bfloat16(),))[1]
            results.append((found.detach(), scores.grad, tangent))
        kept, plain = results
        assert not torch.equal(kept[0], plain[0])
        assert torch.equal(kept[1], plain[1])
        assert torch.equal(kept[2], plain[2])

    @pytest.mark.slow
    def test_recorded_numbers_are_eager_ones(self, name):
        function, scores = FUNCTIONS[name], random(60, 6).bfloat16()
        expected = function(scores)
        assert torch.equal(torch.compile(function, backend="aot_eager", fullgraph=True)(scores), expected)
        mapped = torch.func.vmap(function)(torch.stack([scores, scores.flip(0)]))  # without kernels
        assert sum_errors(mapped).max() < 1e-3
        torch.testing.assert_close(mapped[0], expected, rtol=2**-6, atol=1e-6)


# Another process, as inductor starts only if no test has imported Python's distutils.
COMPARE = """
import torch
import edge_embed

scores = torch.randn(60, 6, generator=torch.Generator().manual_seed(0)).bfloat16()
assert torch.equal(torch.compile(edge_embed.sparsemax, fullgraph=True)(scores), edge_embed.sparsemax(scores))
"""


@pytest.mark.slow
def test_inductor_keeps_sums() -> None:
    subprocess.run([sys.executable, "-c", COMPARE], check=True)
