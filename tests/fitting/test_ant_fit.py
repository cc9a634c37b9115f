"""ANT from dense tables: few weights, non-negative and best for their anchors, and anchors that are recovered."""

import math
from unittest import mock

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from edge_embed import ANTEmbedding, ProximalOptimizer
from edge_embed.errors import BadInputError
from edge_embed.fitting import ant, dense_table, dictionary
from edge_embed.fitting.sparse_codes import Dictionary, encode, price_of

WEIGHT = np.random.default_rng(0).standard_normal((60, 8)).astype(np.float32)


def all_rows(layer: ANTEmbedding) -> Tensor:
    return layer.eval()(torch.arange(layer.num_embeddings)).detach().double()


def error(layer: ANTEmbedding, weight: Tensor) -> float:
    return ((all_rows(layer) - weight).norm() / weight.norm()).item()


def dense_transform(layer: ANTEmbedding) -> np.ndarray:
    packed = layer.to_packed()
    transform = np.zeros((layer.num_embeddings, layer.num_anchors))
    entries = np.arange(layer.num_embeddings).repeat(np.diff(packed.row_offsets)), packed.anchor_ids.astype(int)
    transform[entries] = packed.weights
    return transform


def combinations(rows: int, columns: int, anchors: int, nonzeros: int, seed: int = 0) -> Tensor:
    """Return a table made of anchors with weights from 0.2 to 1.2."""
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((anchors, columns))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    chosen = random.random((rows, anchors)).argsort(1)[:, :nonzeros]
    return torch.from_numpy(np.einsum("rk,rkd->rd", random.random(chosen.shape) + 0.2, vectors[chosen]))


@settings(max_examples=30, deadline=None)
@given(data=st.data())
def test_ant_fit_of_any_table_gives_few_positive_weights(data):
    n, dim, anchors = (data.draw(st.integers(1, most), name) for most, name in ((30, "n"), (6, "d"), (40, "A")))
    nonzeros = data.draw(st.floats(0.1, 9) | st.integers(1, 50), "nonzeros")
    padding = data.draw(st.none() | st.integers(-n, n - 1), "padding_idx")
    random = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
    weight = random.standard_normal((n, dim)) * 10.0 ** data.draw(st.sampled_from([-30, 0, 30]), "size")
    weight[random.random(n) < 0.2] = 0
    weight[random.integers(0, n)] = weight[0]
    counts = data.draw(st.sampled_from([None, torch.from_numpy(random.random(n) + 1e-3)]), "counts")
    if n == 1:  # only the padding row would be counted
        counts = None
    layer = ant.fit(weight, anchors, nonzeros, padding, counts=counts)
    packed, rows = layer.to_packed(), all_rows(layer)
    per_row = np.diff(packed.row_offsets)
    assert layer.frozen
    assert (layer.num_embeddings, layer.embedding_dim, layer.num_anchors) == (n, dim, anchors)
    assert per_row.sum() <= nonzeros * n
    assert per_row.max() <= min(math.ceil(2 * nonzeros), anchors, dim)
    assert (packed.weights > 0).all()
    assert rows.isfinite().all()
    empty = ~weight.any(1)
    if padding is not None:
        empty[padding] = True
        weight[padding] = 0
    assert not per_row[empty].any()
    assert (rows - torch.from_numpy(weight)).norm() <= np.linalg.norm(weight) * (1 + 1e-5)


def test_weights_are_optimal_on_anchors_of_their_row():
    """Karush-Kuhn-Tucker conditions in float64: the gradient is zero where weights are positive."""
    layer = ant.fit(WEIGHT, 20, 3)
    transform, anchors = dense_transform(layer), layer.to_packed().anchors.astype(np.float64)
    lengths = np.linalg.norm(WEIGHT, axis=1, keepdims=True) * np.linalg.norm(anchors, axis=1)
    gradient = (WEIGHT - transform @ anchors) @ anchors.T / lengths
    assert np.abs(gradient[transform > 0]).max() < 1e-6


def test_weights_with_room_for_all_leave_no_helpful_anchor():
    """The weights solve the whole non-negative problem: the best combination of all anchors."""
    layer = ant.fit(WEIGHT, 20, 8)
    transform, anchors = dense_transform(layer), layer.to_packed().anchors.astype(np.float64)
    lengths = np.linalg.norm(WEIGHT, axis=1, keepdims=True) * np.linalg.norm(anchors, axis=1)
    assert ((WEIGHT - transform @ anchors) @ anchors.T / lengths).max() < 2e-6


def test_anchor_taken_first_is_removed_when_useless():
    """The third anchor is nearest to the row; beside the other two, its weight would be negative."""
    anchors = torch.eye(3, dtype=torch.float64)
    anchors[2] = torch.nn.functional.normalize(torch.tensor([1.0, 1.0, 0.3], dtype=torch.float64), dim=0)
    row = torch.tensor([[1.0, 1.0, -0.2]], dtype=torch.float64)
    codes = encode(row, Dictionary(anchors), 3, price=0.0)
    found = torch.zeros(1, 3, dtype=torch.float64).scatter_add_(1, codes.anchor_ids, codes.weights)
    torch.testing.assert_close(found, torch.tensor([[1.0, 1.0, 0.0]], dtype=torch.float64), atol=1e-9, rtol=0)


def test_combinations_of_known_anchors_are_recovered():
    random = np.random.default_rng(1)
    anchors = torch.nn.functional.normalize(torch.from_numpy(random.standard_normal((30, 40))), dim=1)
    wanted = torch.zeros(200, 30, dtype=torch.float64)
    wanted.scatter_(1, torch.rand(200, 30).argsort(1)[:, :3], torch.rand(200, 3, dtype=torch.float64) + 0.5)
    codes = encode(wanted @ anchors, Dictionary(anchors), 6, price=1e-6)
    found = torch.zeros_like(wanted).scatter_add_(1, codes.anchor_ids, codes.weights)
    exact = (found - wanted).abs().amax(1) < 1e-6
    assert exact.double().mean() > 0.9  # the search is greedy


def test_multiples_of_anchors_are_recovered():
    weight = combinations(300, 24, 10, 1)
    assert error(ant.fit(weight, 10, 1), weight) < 1e-6


def test_sparse_combinations_of_unknown_anchors_are_recovered():
    weight = combinations(800, 16, 12, 2)
    errors = [error(ant.fit(weight, 12, 2, seed=seed), weight) for seed in range(3)]
    begun = error(ant.fit(weight, 12, 2, turns=1), weight)
    assert min(errors) < 0.06
    assert begun > 0.2


def test_nonzeros_never_raise_error_when_increased():
    rows, anchors = torch.randn(50, 12).double(), torch.nn.functional.normalize(torch.randn(30, 12).double(), dim=1)
    errors = encode(rows, Dictionary(anchors), 10, price=0.0).errors
    reached = errors.cummin(1).values
    present = errors.isfinite()
    assert torch.equal(errors[present], reached[present])
    price = price_of(errors, 4)
    for dearer in (price, 2 * price, 5 * price):
        counts = [encode(rows, Dictionary(anchors), 10, p).weights.count_nonzero() for p in (dearer / 2, dearer)]
        assert counts[0] >= counts[1]
    assert encode(rows, Dictionary(anchors), 10, price).weights.count_nonzero() <= 4 * len(rows)
    layers = [ant.fit(WEIGHT, 20, nonzeros) for nonzeros in (1, 2, 4, 8)]
    lefts = [error(layer, torch.from_numpy(WEIGHT)) for layer in layers]
    assert lefts == sorted(lefts, reverse=True)


def test_weights_go_to_rows_that_gain_most():
    """Rows equal to an anchor need one weight; the others share the rest."""
    plain = np.eye(12)[np.arange(60) % 12] * 2
    mixed = np.random.default_rng(2).random((60, 12))
    packed = ant.fit(np.concatenate([plain, mixed]), 24, 3).to_packed()
    per_row = np.diff(packed.row_offsets)
    assert per_row[:60].mean() < 2
    assert per_row[60:].mean() > 4


def test_counts_shift_error_to_rare_rows():
    weight = torch.from_numpy(np.random.default_rng(3).standard_normal((200, 12)))
    counts = torch.ones(200)
    counts[:50] = 1000.0
    for frequent, often in ((slice(0, 50), counts), (slice(150, 200), counts.flip(0))):
        left = (all_rows(ant.fit(weight, 16, 2, counts=often)) - weight).square().sum(1)
        even = (all_rows(ant.fit(weight, 16, 2)) - weight).square().sum(1)
        assert left[frequent].sum() < 0.9 * even[frequent].sum()
        assert left.sum() > even.sum()


def test_rows_that_never_occur_make_no_anchor():
    weight = torch.cat([combinations(40, 16, 4, 1), combinations(400, 16, 4, 1, seed=9)])
    counts = torch.cat([torch.ones(40), torch.zeros(400)])
    with mock.patch.object(ant, "SAMPLE", 30):
        left = (all_rows(ant.fit(weight, 4, 1, counts=counts)) - weight).square().sum(1)
    assert left[:40].sum() < 1e-9 < left[40:].sum()


def test_trainable_layer_equals_frozen_one_and_trains():
    weight = torch.from_numpy(WEIGHT)
    frozen, layer = ant.fit(weight, 20, 3, 5), ant.fit(weight, 20, 3, 5, trainable=True)
    assert not layer.frozen
    assert layer.training
    assert layer.dtype == torch.float32
    assert torch.equal(layer.transform.double(), torch.from_numpy(dense_transform(frozen)))
    torch.testing.assert_close(all_rows(layer), all_rows(frozen), atol=1e-6, rtol=0)
    assert torch.equal(all_rows(ant.fit(weight, 20, 3, 5, trainable=True).freeze()), all_rows(frozen))
    layer.train()
    optimizer = ProximalOptimizer(torch.optim.SGD(layer.parameters(), lr=0.001), layer, penalty=0.01)
    losses = []
    for _ in range(20):
        loss = (layer(torch.arange(60)) - weight).square()[torch.arange(60) != 5].sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    assert not layer(torch.tensor(5)).any()


def test_seed_decides_layer_and_torch_generator_stays():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    with mock.patch.object(ant, "SAMPLE", 20):
        first, again, other = (ant.fit(WEIGHT, 10, 2, seed=seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(tensor, again[name]) for name, tensor in first.items())
    assert not torch.equal(first["anchors"], other["anchors"])
    assert torch.equal(torch.get_rng_state(), before)


def test_blocks_give_same_rows_as_whole_table():
    few = mock.patch.object(dictionary, "_BLOCK_NUMBERS", 400), mock.patch.object(dense_table, "_BLOCK_NUMBERS", 200)
    with few[0], few[1]:
        done = list[int]()
        blocks = ant.fit(WEIGHT, 10, 2, on_block=done.append).to_packed()
    whole = ant.fit(WEIGHT, 10, 2).to_packed()
    np.testing.assert_allclose(blocks.rows(range(60)), whole.rows(range(60)), atol=1e-5)
    assert done == sorted(done)
    assert done[-1] == 60
    assert len(set(done)) > 2


def test_sample_of_rows_is_enough_for_anchors():
    weight = combinations(2000, 16, 8, 1)
    with mock.patch.object(ant, "SAMPLE", 200):
        layer = ant.fit(weight, 8, 1, counts=torch.arange(2000.0).add(1).reciprocal())
    assert error(layer, weight) < 1e-5


def kinds(folder) -> dict[str, object]:
    np.save(folder / "table.npy", WEIGHT)
    return {
        "memory-mapped": np.load(folder / "table.npy", mmap_mode="r"),
        "big-endian": WEIGHT.astype(">f4"),
        "float64": WEIGHT.astype(np.float64),
        "parameter": torch.nn.Parameter(torch.from_numpy(WEIGHT)),
    }


@pytest.mark.parametrize("kind", ["memory-mapped", "big-endian", "float64", "parameter"])
def test_tables_of_every_kind_give_same_rows(kind, tmp_path):
    wanted = all_rows(ant.fit(WEIGHT, 10, 2, padding_idx=-1))
    assert torch.equal(all_rows(ant.fit(kinds(tmp_path)[kind], 10, 2, padding_idx=-1)), wanted)
    assert not wanted[-1].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_narrow_types_are_read_unchanged(dtype):
    narrow = torch.from_numpy(WEIGHT).to(dtype)
    assert torch.equal(all_rows(ant.fit(narrow, 10, 2)), all_rows(ant.fit(narrow.double(), 10, 2)))


@pytest.mark.parametrize("power", [-110, 100])
def test_scale_of_power_of_two_changes_no_weight(power):
    small, scaled = ant.fit(WEIGHT, 10, 2), ant.fit(WEIGHT.astype(np.float64) * 2.0**power, 10, 2)
    assert torch.equal(small.weights, scaled.weights)
    assert torch.equal(small.anchors.double() * 2.0**power, scaled.anchors.double())
    assert 0.1 < small.weights.median() < 10


@pytest.mark.parametrize("weight", [np.zeros((5, 3)), np.zeros((1, 1)), np.ones((1, 4))])
def test_tables_of_zero_or_padding_only_give_zero_rows(weight):
    layer = ant.fit(weight, 6, 2, padding_idx=0 if weight.any() else None)
    assert not all_rows(layer).any()
    assert layer.anchors.isfinite().all()


def test_row_that_is_not_finite_is_named_unless_padding():
    weight = WEIGHT.copy()
    weight[7, 2] = math.nan
    with pytest.raises(BadInputError, match="row 7 contains NaN, infinity or a number too large for float32"):
        ant.fit(weight, 10, 2)
    assert all_rows(ant.fit(weight, 10, 2, padding_idx=7)).isfinite().all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_anchors": 0}, "num_anchors must be at least 1, got 0"),
        ({"nonzeros": 0}, "nonzeros must be a finite number above 0, .*, got 0"),
        ({"nonzeros": math.inf}, "nonzeros must be a finite number above 0, .*, got inf"),
        ({"nonzeros": "3"}, "nonzeros must be a finite number above 0, .*, got '3'"),
        ({"padding_idx": 60}, "padding_idx 60 is outside a table of 60 rows"),
        ({"counts": torch.ones(59)}, "counts: got 59, expected 60, one for each row"),
        ({"counts": -torch.ones(60)}, "counts: got -1 for row 0, expected none below 0"),
        ({"counts": torch.zeros(60)}, "counts: got only zeros, .*; or leave counts out"),
        ({"counts": torch.eye(60)[3], "padding_idx": 3}, "counts: got only zeros outside the padding row"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"weight": [[1.0]]}, "weight: got a list"),
    ],
)
def test_impossible_arguments_of_ant_fit_are_refused(arguments, message):
    with pytest.raises(BadInputError, match=message):
        ant.fit(**{"weight": WEIGHT, "num_anchors": 10, "nonzeros": 2} | arguments)


def test_nonzeros_beyond_storage_limit_are_refused():
    with (
        mock.patch.object(ant, "MAX_NONZEROS", 100),
        pytest.raises(BadInputError, match="nonzeros: got 120 in all rows, expected at most 100; use fewer per row"),
    ):
        ant.fit(WEIGHT, 10, 2)
