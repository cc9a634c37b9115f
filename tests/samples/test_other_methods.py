"""Methods of other authors: bytes that they take, and rows that are those of their definition."""

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("faiss", reason="faiss, which has other methods, is missing: pip install 'edge-embed[bench]'")

from tiers.case import Case
from tiers.other_methods import OTHERS, hashed, quotient_remainder, rounded

from edge_embed.errors import SizeError

N, DIM = 1_000, 16
RATIOS = {"rounding, rows": 5, "rounding, columns": 5}  # at 8, too few bits are left


def case() -> Case:
    """Return a table of rows near few centres, so that codebooks pay."""
    torch.manual_seed(0)
    return table_of(torch.randn(30, DIM)[torch.randint(30, (N,))] + 0.2 * torch.randn(N, DIM))


def table_of(rows: torch.Tensor) -> Case:
    model = nn.Sequential(nn.Embedding.from_pretrained(rows)).eval()
    return Case("words", model, {"0": torch.arange(N, 0, -1)}, lambda tried: {"sum": 0.0})


def grouped_rows() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.cat([torch.randn(5, 2)[torch.randint(5, (N,))] for _ in range(DIM // 2)], 1)


@pytest.mark.parametrize("method", OTHERS)
def test_method_uses_its_bytes_and_no_more(method: str) -> None:
    made, ratio = case(), RATIOS.get(method, 8)
    rows, nbytes, setting = OTHERS[method](made, ratio, 0)
    assert 0.4 * made.nbytes["0"] / ratio < nbytes <= made.nbytes["0"] / ratio
    assert setting
    assert rows["0"].dtype == torch.float32
    dense = made.model[0].weight.detach()
    assert (rows["0"] - dense).square().mean() < dense.square().mean()
    again, *_ = OTHERS[method](made, ratio, 0)
    assert torch.equal(again["0"], rows["0"])


@pytest.mark.parametrize("method", OTHERS)
def test_methods_that_do_not_fit_are_told(method: str) -> None:
    with pytest.raises(SizeError, match="fit"):
        OTHERS[method](case(), 100_000, 0)


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("bits", [2, 5, 8])
def test_rounding_is_at_most_half_a_step(axis: int, bits: int) -> None:
    """The first number of a line and the step are float16 numbers, which adds their errors."""
    rows = np.random.default_rng(0).normal(size=(50, 8)).astype(np.float32)
    nbytes = 50 * -(-8 * bits // 8) + 4 * (50 if axis == 1 else 8)
    found, size, setting = rounded(rows, np.ones(50), nbytes, 0, axis)
    assert (size, setting) == (nbytes, f"{bits} bits")
    least, largest = rows.min(axis, keepdims=True), rows.max(axis, keepdims=True)
    step = (largest - least) / (2**bits - 1)
    assert (np.abs(found - rows) <= 0.5 * step + 2**-11 * (np.abs(least) + largest - least)).all()
    assert max(len(np.unique(line)) for line in (found if axis == 1 else found.T)) <= 2**bits


def test_product_quantisation_finds_the_codebooks_of_a_table() -> None:
    """Groups of two columns have five different values each: rows are exact, but for float16."""
    made = table_of(grouped_rows())
    rows, _, setting = OTHERS["pq"](made, 12, 0)
    assert setting == "K=16 D=8"
    torch.testing.assert_close(rows["0"], made.model[0].weight.detach(), rtol=2**-11, atol=1e-7)


def test_rotation_finds_directions_that_are_quantised_well() -> None:
    rows = grouped_rows() @ torch.linalg.qr(torch.randn(DIM, DIM))[0]
    errors = {
        method: float((OTHERS[method](table_of(rows), 8, 0)[0]["0"] - rows).square().mean())
        for method in ("pq", "opq (faiss)")
    }
    assert errors["opq (faiss)"] < 0.85 * errors["pq"]


def test_hashing_gives_rows_of_a_bucket_their_mean() -> None:
    rows = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    weights = np.arange(1.0, 41.0)
    found, nbytes, _ = hashed(rows, weights, 2 * 4 * 10, 0)
    assert nbytes == 2 * 4 * 10
    kinds, bucket = np.unique(found, axis=0, return_inverse=True)
    assert len(kinds) <= 10
    for number in range(len(kinds)):
        members = bucket.ravel() == number
        mean = np.average(rows[members], axis=0, weights=weights[members])
        np.testing.assert_allclose(kinds[number], mean, rtol=2**-11, atol=1e-7)  # rounded to float16


def test_products_of_small_tables_are_found_again() -> None:
    random = np.random.default_rng(0)
    high, low = (random.uniform(0.5, 2, size=(n, 4)) for n in (5, 8))
    rows = (high[np.arange(40) // 8] * low[np.arange(40) % 8]).astype(np.float32)
    found, nbytes, setting = quotient_remainder(rows, np.ones(40), 2 * 4 * 13, 0)
    assert (nbytes, setting) == (2 * 4 * 13, "5 x 8")
    np.testing.assert_allclose(found, rows, rtol=1.1 * 2**-10)  # two factors of float16
