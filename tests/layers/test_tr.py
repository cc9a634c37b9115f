"""TREmbedding: the equation of the ring, ranks, initialisation, given cores and training."""

import io
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.layers.bag import TREmbeddingBag, TTEmbeddingBag
from edge_embed.layers.tr import TREmbedding
from edge_embed.layers.tt import TTEmbedding
from edge_embed.packed.tt import PackedTT


def ring_table(cores: list[torch.Tensor]) -> torch.Tensor:
    """Compute appendix B of the paper, one einsum over r_0 ... r_{N-1}: all rows, float64 [prod I_k, prod J_k]."""
    count = len(cores)
    bonds, rows, columns = "abcdef"[:count] + "a", "ghijkl"[:count], "uvwxyz"[:count]
    terms = [f"{rows[k]}{bonds[k]}{columns[k]}{bonds[k + 1]}" for k in range(count)]
    table = torch.einsum(f"{','.join(terms)}->{rows}{columns}", [core.double() for core in cores])
    return table.reshape(math.prod(table.shape[:count]), -1)


@st.composite
def layers(draw: st.DrawFn) -> TREmbedding:
    count = draw(st.integers(2, 5))
    rows, columns = draw(st.integers(1, 60)), draw(st.integers(1, 24))
    rank = draw(st.integers(1, 5) | st.lists(st.integers(1, 5), min_size=count, max_size=count))
    torch.manual_seed(draw(st.integers(0, 2**31)))
    padding = draw(st.none() | st.integers(0, rows - 1))
    return TREmbedding(rows, columns, rank, num_cores=count, padding_idx=padding, dtype=torch.float64)


@given(layers(), st.integers(0, 2**31))
def test_rows_and_gradients_match_equation(layer, seed):
    ids = torch.from_numpy(np.random.default_rng(seed).integers(0, layer.num_embeddings, 9))
    weight = torch.randn(9, layer.embedding_dim, dtype=torch.float64)
    rows = layer(ids)
    expected = ring_table(list(layer.cores))[ids]
    if layer.padding_idx is not None:
        expected = expected.masked_fill((ids == layer.padding_idx).unsqueeze(1), 0)
    torch.testing.assert_close(rows, expected, rtol=1e-11, atol=1e-13)
    found = torch.autograd.grad((rows * weight).sum(), list(layer.cores))
    wanted = torch.autograd.grad((expected * weight).sum(), list(layer.cores))
    for got, one in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, one, rtol=1e-10, atol=1e-12)


def test_rotation_of_cores_rotates_indices():
    """A ring has no first core: the choice changes only the order of ids and columns."""
    layer = TREmbedding(24, 12, [3, 2, 4], row_shape=[2, 3, 4], col_shape=[2, 3, 2], dtype=torch.float64)
    turned = TREmbedding.from_cores([*layer.cores[1:], layer.cores[0]], 24)
    assert turned.ranks == (2, 4, 3, 2)
    whole = layer(torch.arange(24)).reshape(2, 3, 4, 2, 3, 2).permute(1, 2, 0, 4, 5, 3)
    torch.testing.assert_close(turned(torch.arange(24)), whole.reshape(24, 12))


def test_ring_with_end_ranks_of_1_equals_train():
    train = TTEmbedding(60, 12, [3, 2], padding_idx=4)
    ring = TREmbedding(60, 12, [1, 3, 2], padding_idx=4)
    ring.load_state_dict(train.state_dict())
    assert ring.ranks == train.ranks
    assert torch.equal(ring(torch.arange(60)), train(torch.arange(60)))


def test_compression_ratios_match_paper():
    """Table 5: TR1 and TR2, which count the table twice, as embedding and as softmax layer."""
    for rank, twice in ((32, 16), (16, 64)):
        layer = TREmbedding(32768, 1024, rank, row_shape=[32] * 3, col_shape=[8, 8, 16], device="meta")
        assert layer.ranks == (rank,) * 4
        assert layer.compression_ratio == 2 * twice


@pytest.mark.parametrize("make", [TTEmbedding, TREmbedding])
@pytest.mark.parametrize("rank", [1, 3, 8])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_initial_rows_have_variance_of_glorot(make, rank, count):
    """Each of the summed paths, R^N of a ring, has its share of 2 / (rows + columns), eq. (2)."""
    torch.manual_seed(1)
    variances = []
    for _ in range(30):
        layer = make(900, 64, rank, num_cores=count)
        variances.append(layer(torch.arange(900)).square().mean().item())
    assert np.mean(variances) == pytest.approx(2 / (math.prod(layer.row_shape) + 64), rel=0.35)


@pytest.mark.parametrize("make", [TTEmbedding, TREmbedding])
@given(data=st.data())
def test_ratio_is_reached_by_largest_possible_rank(make, data):
    rows, columns = data.draw(st.integers(1, 3000), "n"), data.draw(st.sampled_from([1, 12, 64]), "d")
    most = make(rows, columns, 1, device="meta").compression_ratio
    if most < 1:
        with pytest.raises(BadInputError, match=f"ratio: got 1, expected at most {most:.1f}"):
            make(rows, columns, ratio=1, device="meta")
        return
    ratio = data.draw(st.floats(1, most), "ratio")
    layer = make(rows, columns, ratio=ratio, device="meta")
    assert layer.compression_ratio >= ratio
    larger = make(rows, columns, max(layer.ranks) + 1, device="meta")
    assert larger.compression_ratio < ratio or larger.ranks == layer.ranks


def test_ratio_out_of_reach_is_refused_with_largest():
    message = "ratio: got 10000, expected at most 9697, that of rank 1 with these shapes; use more cores"
    with pytest.raises(BadInputError, match=message):
        TREmbedding(25_000, 256, ratio=10_000)
    assert TREmbedding(25_000, 256, ratio=10_000, num_cores=4).compression_ratio >= 10_000


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "got rank None and ratio None, expected one of them"),
        ({"rank": 2, "ratio": 3.0}, "got rank 2 and ratio 3.0, expected one of them"),
        ({"ratio": 0.5}, "ratio must be a number of at least 1, got 0.5"),
        ({"ratio": math.nan}, "ratio must be a number of at least 1, got nan"),
        ({"ratio": math.inf}, "ratio must be a number of at least 1, got inf"),
        ({"ratio": True}, "ratio must be a number of at least 1, got True"),
        ({"ratio": "50"}, "ratio must be a number of at least 1, got '50'"),
        ({"rank": [2, 2]}, r"rank \[2, 2\] has 2 numbers, expected 3"),
        ({"rank": [2, 0, 2]}, r"rank\[1\] must be at least 1, got 0"),
        ({"rank": 2.0}, "rank must be an integer, got 2.0"),
    ],
)
def test_impossible_ranks_are_refused(options, message):
    with pytest.raises(BadInputError, match=message):
        TREmbedding(20, 12, **options)


def test_repr_shows_sizes_and_compression_ratio():
    layer = TREmbedding(20, 12, 2)
    assert "ranks=(2, 2, 2, 2), compression_ratio=2.6, spare_rows=0, frozen=False" in repr(layer)
    assert layer.compression_ratio == layer.freeze().compression_ratio == layer.to_packed().compression_ratio
    assert TTEmbedding(1001, 8, 2).spare_rows == 1100 - 1001


def ring(**options) -> PackedTT:
    random = np.random.default_rng(0)
    shapes = [(2, 3, 2, 4), (3, 4, 1, 2), (2, 2, 2, 3)]
    return PackedTT(tuple(random.standard_normal(shape).astype(np.float32) for shape in shapes), 11, 4, **options)


@pytest.mark.parametrize("make", [TREmbedding, TREmbeddingBag])
def test_ring_from_packed_form_becomes_frozen_layer(make):
    packed = ring()
    layer = make.from_packed(packed)
    assert type(layer) is make
    assert layer.ranks == (3, 4, 2, 3)
    rows = layer.use("rows", torch.arange(11)).numpy()
    np.testing.assert_allclose(rows, packed.rows(np.arange(11)), rtol=1e-5, atol=1e-5)
    assert layer.to_packed().shape == packed.shape


@pytest.mark.parametrize("make", [TTEmbedding, TTEmbeddingBag])
def test_train_layer_refuses_ring(make):
    message = "R_0: got 3, expected 1; use TREmbedding for a tensor ring"
    with pytest.raises(BadInputError, match=message):
        make.from_packed(ring())
    with pytest.raises(BadInputError, match=message):
        make.from_cores([torch.from_numpy(core) for core in ring().cores], 11)


def test_layers_over_given_cores_train_a_copy():
    cores = [torch.randn(shape, dtype=torch.float64) for shape in [(4, 1, 2, 2), (5, 2, 3, 1)]]
    cores[1] = cores[1].permute(3, 2, 1, 0).contiguous().permute(3, 2, 1, 0)
    layer = TTEmbedding.from_cores(cores, 18, padding_idx=1)
    assert (layer.num_embeddings, layer.embedding_dim, layer.dtype, layer.frozen) == (18, 6, torch.float64, False)
    layer(torch.tensor([3])).sum().backward()
    assert all(core.is_contiguous() for core in layer.cores)  # safetensors accepts no others
    before = cores[0].clone()
    torch.optim.SGD(layer.parameters(), 1.0).step()
    assert torch.equal(cores[0], before)
    assert not torch.equal(layer.cores[0], before)
    again = TTEmbedding(18, 6, [2], row_shape=[4, 5], col_shape=[2, 3], dtype=torch.float64)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(torch.tensor([3])), layer(torch.tensor([3])))


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ([(4, 1, 2, 2), (5, 3, 3, 1)], "got shapes 4x1x2x2 5x3x3x1, expected R of each core to equal"),
        ([(4, 3, 2, 2), (5, 2, 3, 1)], "got shapes 4x3x2x2 5x2x3x1, expected R of each core to equal"),
        ([(4, 2, 2), (5, 2, 3, 1)], r"expected \[I, R, J, R'\] each"),
        ([(4, 1, 2, 1)], "number of cores: got 1, expected 2 to 6"),
        ([(2, 1, 2, 2), (5, 2, 3, 1)], "product 10, expected 18"),
    ],
)
def test_cores_that_do_not_fit_are_refused(shapes, message):
    with pytest.raises(BadInputError, match=message):
        TREmbedding.from_cores([torch.zeros(shape) for shape in shapes], 18)


def test_cores_of_several_dtypes_are_refused():
    with pytest.raises(BadInputError, match=r"cores: got torch\.float32, torch\.float64, expected one type"):
        TTEmbedding.from_cores([torch.zeros(4, 1, 2, 2), torch.zeros(5, 2, 3, 1, dtype=torch.float64)], 18)


def test_cores_that_are_no_tensors_are_refused_with_remedy():
    with pytest.raises(BadInputError, match=r"cores: got ndarray, expected tensors: give torch\.from_numpy"):
        TREmbedding.from_cores([np.zeros((2, 2, 2, 2))] * 3, 8)


def test_ratio_accepts_numpy_number():
    assert TREmbedding(200, 12, ratio=np.float32(3)).ranks == TREmbedding(200, 12, ratio=3).ranks


def trained(layer: TREmbedding, optimizer: torch.optim.Optimizer, steps: range) -> None:
    for step in steps:
        ids = torch.randint(0, 20, (3, 4), generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        (layer(ids) * torch.arange(12)).sum().backward()
        optimizer.step()


def test_training_resumed_from_checkpoint_equals_uninterrupted():
    torch.manual_seed(0)
    layer = TREmbedding(20, 12, 3, padding_idx=0)
    optimizer = torch.optim.Adam(layer.parameters(), 0.01)
    trained(layer, optimizer, range(3))
    file = io.BytesIO()
    torch.save({"layer": layer.state_dict(), "optimizer": optimizer.state_dict()}, file)
    trained(layer, optimizer, range(3, 6))
    file.seek(0)
    state = torch.load(file, weights_only=True)
    resumed = TREmbedding(20, 12, 3, padding_idx=0)
    other = torch.optim.Adam(resumed.parameters(), 0.01)
    resumed.load_state_dict(state["layer"])
    other.load_state_dict(state["optimizer"])
    trained(resumed, other, range(3, 6))
    assert torch.equal(resumed(torch.arange(20)), layer(torch.arange(20)))


def test_layer_learns_small_task():
    torch.manual_seed(0)
    layer, linear, ids = TREmbedding(20, 12, 3), nn.Linear(12, 4), torch.arange(20)
    optimizer = torch.optim.Adam([*layer.parameters(), *linear.parameters()], 0.02)
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(linear(layer(ids)), ids % 4)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]
