"""Trains and rings of tables with row counts, compared with plain least squares in float64."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.fitting import dense_table, tr, tt, weighted_least_squares
from edge_embed.fitting.cores import Limit, decompose
from edge_embed.fitting.dense_table import DenseTable
from edge_embed.fitting.weighted_least_squares import RowWeights, improved
from edge_embed.layers.tt import TTEmbedding

METHODS: dict[str, Callable[..., TTEmbedding]] = {"tt": tt.fit, "tr": tr.fit}
FLOAT32 = 1e-6  # of the table's norm: cores are rounded

Cores = Sequence[NDArray[np.float64]]


def table_of(n: int, dim: int, seed: int = 0) -> Tensor:
    """Return rows with falling singular values, float64 [n, d]."""
    random = torch.Generator().manual_seed(seed)
    rows = torch.randn(n, dim, generator=random, dtype=torch.float64)
    return rows * 10 ** -torch.arange(dim).div(8) @ torch.randn(dim, dim, generator=random, dtype=torch.float64)


def zipf(n: int, seed: int = 0) -> Tensor:
    """Return counts of words, in a random order of ids."""
    return 1e6 / (1 + torch.randperm(n, generator=torch.Generator().manual_seed(seed)).double())


def all_rows(layer: TTEmbedding) -> Tensor:
    rows: Tensor = layer.double()(torch.arange(layer.num_embeddings))
    return rows.detach()


def weighted_error(layer: TTEmbedding, rows: Tensor, counts: Tensor) -> float:
    return float(((all_rows(layer) - rows).square().sum(1) @ counts.double()).sqrt())


def whole(cores: Cores, n: int) -> NDArray[np.float64]:
    """Return rows by definition: the trace of the product of one slice for each digit."""
    digits = np.unravel_index(np.arange(n), [len(core) for core in cores])
    state = cores[0][digits[0]]  # [n, R_0, columns, R_k]
    for core, digit in zip(cores[1:], digits[1:], strict=True):
        state = np.einsum("norc,ncjs->norjs", state, core[digit])
        state = state.reshape(n, state.shape[1], -1, state.shape[-1])
    rows: NDArray[np.float64] = np.einsum("noro->nr", state)
    return rows


def best(cores: Cores, k: int, rows: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the rows with G_k solved by weighted least squares in one system, the other cores fixed."""
    columns = []
    for place in range(cores[k].size):
        one = np.zeros(cores[k].size)
        one[place] = 1
        columns.append(whole([*cores[:k], one.reshape(cores[k].shape), *cores[k + 1 :]], len(rows)).ravel())
    roots = np.repeat(np.sqrt(weights), rows.shape[1])
    design = np.stack(columns, 1)
    found = np.linalg.lstsq(roots[:, None] * design, roots * rows.ravel(), rcond=None)[0]
    cores[k][...] = found.reshape(cores[k].shape)
    made: NDArray[np.float64] = design @ found
    return made.reshape(rows.shape)


@given(
    shapes=st.sampled_from([([4, 5], [2, 3]), ([6, 2], [1, 4]), ([3, 7], [3, 1])]),
    rank=st.integers(1, 5),
    scale=st.sampled_from([1e-10, 1.0, 1e10]),
    seed=st.integers(0, 99),
)
def test_product_weights_give_best_rows_of_rank(
    shapes: tuple[list[int], list[int]], rank: int, scale: float, seed: int
) -> None:
    (first, last), (left, right) = shapes
    random = np.random.default_rng(seed)
    rows = scale * random.standard_normal((first * last, left * right))
    counts = np.outer(random.uniform(0.1, 9, first), random.uniform(0.1, 9, last)).ravel()
    layer = tt.fit(rows, rank, *shapes, counts=torch.from_numpy(counts))
    weighted = (np.sqrt(counts)[:, None] * rows).reshape(first, last, left, right).swapaxes(1, 2)
    sizes = np.linalg.svd(weighted.reshape(first * left, last * right), compute_uv=False)
    found = weighted_error(layer, torch.from_numpy(rows), torch.from_numpy(counts))
    assert found <= np.linalg.norm(sizes[rank:]) + FLOAT32 * np.linalg.norm(sizes)


@pytest.mark.parametrize(
    ("fit", "shapes", "rank"),
    [
        (tt.fit, ([5, 8], [2, 3]), 3),
        (tt.fit, ([3, 4, 4], [2, 2, 2]), 3),
        (tt.fit, ([3, 2, 3, 3], [2, 1, 2, 2]), 2),
        (tr.fit, ([3, 4, 4], [2, 2, 2]), 2),
    ],
)
@pytest.mark.parametrize("some_are_zero", [False, True])
def test_cores_match_least_squares_solution(
    fit: Callable[..., TTEmbedding],
    shapes: tuple[list[int], list[int]],
    rank: int,
    some_are_zero: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cores are solved one by one from the last, of a ring only the last; no system has rows beyond n."""
    monkeypatch.setattr(weighted_least_squares, "_STEPS", 200)  # until nothing changes any more
    n, dim = math.prod(shapes[0]) - 2, math.prod(shapes[1])
    rows, counts = table_of(n, dim), zipf(n)
    if some_are_zero:
        counts[::3] = 0
    is_ring = fit is tr.fit
    first = (tr if is_ring else tt)._first_ranks
    count = len(shapes[0])
    limit = Limit((rank if is_ring else 1, *(rank,) * (count - 1), rank if is_ring else 1))
    weights = RowWeights.of(counts / counts.max(), shapes[0])
    table = DenseTable(rows, None)
    start = decompose(table, *shapes, limit, first, weights.roots)
    found = [core.numpy() for core in weights.taken_out(improved(table, weights, start))]
    expected = [core.numpy().copy() for core in weights.taken_out(start)]
    for k in [count - 1] if is_ring else range(count - 1, -1, -1):
        wanted = best(expected, k, rows.numpy(), counts.numpy())
    counting = counts.numpy() > 0
    np.testing.assert_allclose(whole(found, n)[counting], wanted[counting], atol=1e-5 * np.abs(rows.numpy()).max())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("num_cores", [2, 3, 4])
def test_rows_of_frequent_words_come_nearer(method: str, num_cores: int) -> None:
    rows, counts = table_of(700, 24), zipf(700)
    limit: dict[str, Any] = {"rank": 4, "num_cores": num_cores}
    alike, counted_ = (METHODS[method](rows, **limit, counts=each) for each in (None, counts))
    assert counted_.ranks == alike.ranks
    assert weighted_error(counted_, rows, counts) < 0.95 * weighted_error(alike, rows, counts)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_rounds_never_raise_weighted_error(data: st.DataObject) -> None:
    """Counts may be zero, tiny, huge or of one row only, and tables may be zero too."""
    n, dim = data.draw(st.integers(1, 60), "n"), data.draw(st.sampled_from([1, 4, 6, 12]), "d")
    numbers = st.sampled_from([0.0, 1e-300, 1e-9, 1.0, 3.0, 1e9, 1e300])
    counts = torch.tensor(data.draw(st.lists(numbers, min_size=n, max_size=n), "counts"), dtype=torch.float64)
    counts[data.draw(st.integers(0, n - 1), "counting")] += 1
    rows = data.draw(st.sampled_from([0.0, 1e-20, 1.0, 1e20]), "scale") * table_of(n, dim)
    fit = METHODS[data.draw(st.sampled_from(list(METHODS)), "method")]
    limit = {"rank": data.draw(st.integers(1, 6), "rank"), "num_cores": data.draw(st.integers(2, 4), "N")}
    with pytest.MonkeyPatch.context() as patch:
        layer = fit(rows, **limit, counts=counts)
        patch.setattr("edge_embed.fitting.cores.improved", lambda table, weights, cores: cores)
        before = fit(rows, **limit, counts=counts)
    assert all(core.isfinite().all() for core in layer.cores)
    weights = counts / counts.max()
    size = float((rows.square().sum(1) @ weights).sqrt())
    assert weighted_error(layer, rows, weights) <= weighted_error(before, rows, weights) + 1e-5 * size


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("padding_idx", [None, 7])
def test_equal_counts_give_bits_without_counts(method: str, padding_idx: int | None) -> None:
    rows = table_of(190, 12)
    counts = torch.full((190,), 3)
    counts[7] = 3 if padding_idx is None else 10**9
    alike, found = (METHODS[method](rows, 4, padding_idx=padding_idx, counts=each) for each in (None, counts))
    assert all(torch.equal(core, wanted) for core, wanted in zip(found.cores, alike.cores, strict=True))


@pytest.mark.parametrize("method", METHODS)
def test_padding_row_has_no_weight(method: str) -> None:
    rows, counts = table_of(190, 12), zipf(190)
    layers = []
    for given_, count in ((math.nan, 0.0), (5.0, 1e9)):
        rows[7], counts[7] = given_, count
        layers.append(METHODS[method](rows, 4, padding_idx=7, counts=counts))
    assert all(torch.equal(core, wanted) for core, wanted in zip(layers[0].cores, layers[1].cores, strict=True))
    assert not layers[0](torch.tensor(7)).any()


@pytest.mark.parametrize("n", [60, 45, 41])
def test_weights_are_factored_by_digits(n: int) -> None:
    """There are 3 x 4 x 5 places; with 41 rows, one digit of the first place has one row."""
    counts = zipf(n)
    weights = RowWeights.of(counts / counts.max(), [3, 4, 5])
    padded = np.zeros((3, 4, 5))
    padded.flat[:n] = counts
    sums = [padded.sum((1, 2)), padded.sum((0, 2)), padded.sum((0, 1))]
    expected = [np.sqrt(np.maximum(each / each.mean(), 0.01)) for each in sums]
    for found, wanted in zip(weights.scales, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    np.testing.assert_allclose(weights.roots, np.einsum("i,j,k->ijk", *expected).ravel(), rtol=1e-12)
    assert not weights.left[n:].any()
    products = weights.left[:n] * weights.roots[:n] ** 2
    np.testing.assert_allclose(products / products.sum(), counts / counts.sum(), rtol=1e-12)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("padding_idx", [None, 3])
def test_counts_refer_to_ids_under_any_row_order(method: str, padding_idx: int | None) -> None:
    rows, counts = table_of(190, 12), zipf(190)
    order = torch.randperm(190, generator=torch.Generator().manual_seed(1))
    if padding_idx is not None:  # it keeps its place
        order[order.tolist().index(padding_idx)] = order[padding_idx].clone()
        order[padding_idx] = padding_idx
    ids = order.argsort()
    fit, limit = METHODS[method], {"rank": 4, "padding_idx": padding_idx}
    ordered = fit(rows, **limit, counts=counts, row_order=order)
    plain = fit(rows[ids], **limit, counts=counts[ids])
    torch.testing.assert_close(all_rows(ordered), all_rows(plain)[order], rtol=0, atol=float(1e-5 * rows.abs().max()))


@pytest.mark.parametrize("method", METHODS)
def test_blocks_of_rows_give_same_layer(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows, counts = table_of(190, 12), zipf(190)
    limit: dict[str, Any] = {"rank": 3, "row_shape": [5, 5, 8], "col_shape": [2, 2, 3], "padding_idx": 100}
    at_once = METHODS[method](rows, **limit, counts=counts)
    monkeypatch.setattr(dense_table, "_BLOCK_NUMBERS", 400)
    monkeypatch.setattr(weighted_least_squares, "_NUMBERS", 1)
    in_blocks = METHODS[method](rows, **limit, counts=counts)
    torch.testing.assert_close(all_rows(in_blocks), all_rows(at_once), rtol=0, atol=float(1e-5 * rows.abs().max()))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("counts", "message"),
    [
        (torch.ones(2), "counts: got 2, expected 3, one for each row"),
        (torch.ones(4), "counts: got 4, expected 3, one for each row"),
        (torch.zeros(3), "counts: got only zeros, expected a number above 0"),
        (torch.tensor([1.0, -2.0, 0.0]), "counts: got -2 for row 1, expected none below 0"),
        (torch.tensor([1.0, math.nan, 0.0]), "counts: got nan for token 1, expected finite numbers"),
        (torch.tensor([1.0, math.inf, 0.0]), "counts: got inf for token 1, expected finite numbers"),
    ],
)
def test_invalid_counts_are_refused(method: str, counts: Tensor, message: str) -> None:
    with pytest.raises(BadInputError, match=message):
        METHODS[method](torch.ones(3, 4), 2, counts=counts)


@pytest.mark.parametrize("method", METHODS)
def test_counts_with_tolerance_are_refused(method: str) -> None:
    with pytest.raises(BadInputError, match=r"got tolerance and counts, .* give rank or ratio"):
        METHODS[method](torch.ones(3, 4), tolerance=0.1, counts=torch.ones(3))
    assert METHODS[method](table_of(300, 12), ratio=4, counts=zipf(300)).compression_ratio >= 4
