"""Trains and rings from dense tables: their errors for given ranks, ratios and tolerances."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.fitting import dense_table, tr, tt
from edge_embed.layers.tr import TREmbedding
from edge_embed.layers.tt import TTEmbedding

METHODS = {"tt": (tt.fit, TTEmbedding), "tr": (tr.fit, TREmbedding)}


def all_rows(layer: TTEmbedding) -> Tensor:
    """Return all rows in float64, with the padding row as a lookup gives it."""
    return layer.double()(torch.arange(layer.num_embeddings)).detach()


def error(layer: TTEmbedding, weight: Tensor) -> float:
    """Return the error relative to the norm of the table."""
    return ((all_rows(layer) - weight).norm() / weight.norm()).item()


def falling(rows: int, columns: int, seed: int = 0) -> Tensor:
    """Return a random float64 table whose singular values fall by powers of ten."""
    random = torch.Generator().manual_seed(seed)
    left = torch.randn(rows, columns, generator=random, dtype=torch.float64)
    right = torch.randn(columns, columns, generator=random, dtype=torch.float64)
    return left * 10 ** -torch.arange(columns).div(4) @ right


def tensor_of(weight: Tensor, layer: TTEmbedding) -> np.ndarray:
    """Return the tensor [I_1 J_1, ..., I_N J_N] that is decomposed, with zeros for rows beyond n."""
    count = len(layer.row_shape)
    padded = torch.zeros(math.prod(layer.row_shape), weight.shape[1], dtype=torch.float64)
    padded[: len(weight)] = weight
    pairs = [axis for k in range(count) for axis in (k, count + k)]
    tensor = padded.reshape(*layer.row_shape, *layer.col_shape).permute(pairs)
    return tensor.reshape([i * j for i, j in zip(layer.row_shape, layer.col_shape, strict=True)]).numpy()


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_tolerance_bounds_relative_error(method, data):
    fit, layer_type = METHODS[method]
    rows, columns = data.draw(st.integers(1, 150), "n"), data.draw(st.integers(1, 24), "d")
    tolerance = data.draw(st.sampled_from([0.9, 0.3, 0.05, 1e-3, 1e-5]), "tolerance")
    weight = falling(rows, columns, data.draw(st.integers(0, 2**31), "seed"))
    layer = fit(weight, num_cores=data.draw(st.integers(2, 5), "N"), tolerance=tolerance)
    assert type(layer) is layer_type
    assert (layer.num_embeddings, layer.embedding_dim) == (rows, columns)
    assert error(layer, weight) <= tolerance


def test_rank_between_two_cores_is_smallest_within_tolerance():
    weight = falling(60, 12)
    for tolerance in (0.5, 0.1, 0.01, 1e-4):
        layer = tt.fit(weight, row_shape=[10, 6], col_shape=[4, 3], tolerance=tolerance)
        sizes = np.linalg.svd(tensor_of(weight, layer), compute_uv=False)
        tails = np.sqrt(np.cumsum(np.square(sizes)[::-1])[::-1]) / np.linalg.norm(sizes)
        assert layer.ranks[1] == np.count_nonzero(tails > tolerance)


@pytest.mark.parametrize("method", METHODS)
def test_table_that_is_a_train_or_ring_is_recovered(method):
    """The first step can separate its ranks: R_2 R_0 is at most I_3 J_3."""
    fit, layer_type = METHODS[method]
    torch.manual_seed(0)
    rank = {"tt": [3, 4], "tr": [2, 2, 4]}[method]
    source = layer_type(500, 24, rank, row_shape=[5, 10, 10], col_shape=[2, 3, 4], dtype=torch.float64)
    weight = all_rows(source)
    layer = fit(weight, row_shape=[5, 10, 10], col_shape=[2, 3, 4], tolerance=1e-5)
    assert error(layer, weight) < 1e-6
    if method == "tt":
        assert layer.ranks == source.ranks
    assert layer.ranks[2] * layer.ranks[0] == source.ranks[2] * source.ranks[0]


def of_tensorly(method: str, tensor: np.ndarray, ranks: list[int]) -> float:
    """Return the relative error of tensorly's decomposition in the same order, from the last core on."""
    peer = pytest.importorskip("tensorly.decomposition", reason="tensorly is not installed (extra edge-embed[dev])")
    if method == "tr":
        made = peer.tensor_ring(tensor, ranks, mode=tensor.ndim - 1).to_tensor()
    else:
        made = peer.tensor_train(tensor.transpose(), ranks[::-1]).to_tensor().transpose()
    return np.linalg.norm(made - tensor) / np.linalg.norm(tensor)


@pytest.mark.filterwarnings("ignore:Determining the TR-rank for the trivial case")
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shapes", [([4, 5, 10], [2, 2, 3]), ([2, 3, 4, 9], [2, 1, 3, 2]), ([40, 5], [2, 6])])
def test_errors_are_near_those_of_tensorly(method, shapes):
    """A train's error is at most 1 % larger, a ring's 12.5 %, because its singular vectors have free signs."""
    weight = falling(190, 12)
    bonds = len(shapes[0]) - (method == "tt")
    for rank in (4, [2, 3, 4, 5][:bonds], [4, 3, 2, 4][:bonds]):
        layer = METHODS[method][0](weight, rank, *shapes)
        given = [rank] * bonds if isinstance(rank, int) else rank
        assert list(layer.ranks) == ([*given, given[0]] if method == "tr" else [1, *given, 1])
        allowed = {"tt": 1.01, "tr": 1.125}[method]
        assert error(layer, weight) <= allowed * of_tensorly(method, tensor_of(weight, layer), list(layer.ranks))


@pytest.mark.parametrize("limit", [{"rank": 12}, {"tolerance": 1e-5}])
def test_ring_splits_first_rank_evenly(limit):
    layer = tr.fit(torch.randn(216, 8), row_shape=[6, 6, 6], col_shape=[2, 2, 2], **limit)
    assert layer.ranks[2:] == (4, 3)  # of I_3 J_3 = 12


@pytest.mark.parametrize("method", METHODS)
def test_ratio_of_fit_is_reached(method):
    fit, _ = METHODS[method]
    for ratio in (1.5, 4, 20):
        assert fit(falling(300, 24), ratio=ratio).compression_ratio >= ratio


def test_ranks_match_layer_so_that_its_checkpoint_loads():
    layer = tt.fit(falling(300, 24), 5, padding_idx=2)
    again = TTEmbedding(300, 24, 5, padding_idx=2)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(torch.arange(300)), layer(torch.arange(300)))
    fitted = tr.fit(falling(300, 24), tolerance=0.01)
    ring = TREmbedding(300, 24, fitted.ranks[:-1])
    ring.load_state_dict(fitted.state_dict())
    assert torch.equal(ring(torch.arange(300)), fitted(torch.arange(300)))


@pytest.mark.parametrize("method", METHODS)
def test_layer_from_fit_is_trainable(method):
    layer = METHODS[method][0](falling(300, 24), 4)
    assert not layer.frozen
    assert layer.training
    assert layer.dtype == torch.float32
    sizes = [core.square().mean().sqrt().item() for core in layer.cores]
    assert sizes == pytest.approx([sizes[0]] * 3, rel=1e-5)
    layer(torch.arange(300)).square().sum().backward()
    assert all(core.grad.any() for core in layer.cores)


@pytest.mark.parametrize("method", METHODS)
def test_rows_beyond_table_are_zero(method):
    weight = falling(190, 12)
    layer = METHODS[method][0](weight, row_shape=[5, 5, 8], col_shape=[2, 2, 3], tolerance=1e-5)
    ids = torch.arange(190, 200)
    spare = layer.training_rows(ids, torch.ones_like(ids)).detach()
    assert layer.spare_rows == 10
    assert spare.norm() < 1e-5 * weight.norm()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("padding_idx", [7, -183])
def test_padding_row_is_not_fitted(method, padding_idx):
    weight = falling(190, 12)
    zero = weight.index_fill(0, torch.tensor(7), 0.0)
    weight[7] = math.nan
    fit, _ = METHODS[method]
    layer, expected = (fit(table, 3, padding_idx=padding_idx) for table in (weight, zero))
    for core, wanted in zip(layer.cores, expected.cores, strict=True):
        assert torch.equal(core, wanted)
    assert not layer(torch.tensor(7)).any()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("limit", [{"rank": 2}, {"tolerance": 0.1}])
def test_tables_small_or_zero_are_fitted(method, limit):
    fit, _ = METHODS[method]
    for rows, columns in ((1, 1), (1, 12), (30, 1)):
        weight = falling(rows, columns)
        assert error(fit(weight, **limit), weight) <= (1 if "rank" in limit else 0.1)
    zero = fit(torch.zeros(30, 12), **limit)
    assert not all_rows(zero).any()
    if "tolerance" in limit:
        assert zero.ranks == (1, 1, 1, 1)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ({}, "got none, expected one of rank, ratio and tolerance"),
        ({"rank": 2, "tolerance": 0.1}, "got rank and tolerance"),
        ({"tolerance": 1e-6}, "tolerance must be 1e-05 to below 1, got 1e-06"),
        ({"tolerance": 1.0}, "tolerance must be 1e-05 to below 1, got 1.0"),
        ({"tolerance": math.nan}, "tolerance must be 1e-05 to below 1, got nan"),
        ({"tolerance": "0.1"}, "tolerance must be 1e-05 to below 1, got '0.1'"),
        ({"ratio": 1e9}, "ratio: got 1000000000, expected at most"),
        ({"rank": 2, "row_shape": [5, 5]}, "row_shape: got 5x5 with product 25, expected 40"),
    ],
)
def test_impossible_limits_are_refused(method, limit, message):
    with pytest.raises(BadInputError, match=message):
        METHODS[method][0](falling(40, 12), **limit)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("shapes", [([5, 5, 8], [2, 2, 3]), ([3, 70], [3, 4]), ([70, 3], [3, 4])])
def test_blocks_of_rows_give_same_layer(method, shapes, monkeypatch):
    weight = falling(190, 12)
    at_once = METHODS[method][0](weight, 3, *shapes, padding_idx=100)
    monkeypatch.setattr(dense_table, "_BLOCK_NUMBERS", 400)
    in_blocks = METHODS[method][0](weight, 3, *shapes, padding_idx=100)
    # Fits are float64; each of 3 cores, and each product of 2 ranks of 3, rounds to float32.
    most = all_rows(at_once).abs().max()
    torch.testing.assert_close(all_rows(in_blocks), all_rows(at_once), rtol=0, atol=float(16 * 2.0**-24 * most))


@given(st.integers(1, 60), st.sampled_from([1, 2, 6, 8, 12]), st.integers(1, 40), st.booleans())
@settings(max_examples=60, deadline=None)
def test_fitted_ranks_predict_ranks_of_fit(rows, dim, rank, is_ring):
    method, layer = (tr, TREmbedding) if is_ring else (tt, TTEmbedding)
    weight = np.random.default_rng(rows).standard_normal((rows, dim))
    pattern = layer(rows, dim, rank=rank, device="meta")
    assert method.fitted_ranks(pattern) == method.fit(weight, rank).ranks
