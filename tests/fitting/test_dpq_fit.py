"""DPQ from a dense table without feedback: centroids that are means, nearest codes, exact rows where codes suffice."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edge_embed.errors import BadInputError
from edge_embed.fitting import centroids, dense_table, dpq, error_feedback
from edge_embed.fitting.dense_table import DenseTable
from edge_embed.layers.dpq import DPQEmbedding


@pytest.fixture(autouse=True, scope="module")
def without_feedback():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(error_feedback, "_PRODUCTS", 0.0)
        yield


def families(n: int = 2000, dim: int = 16, seed: int = 0) -> np.ndarray:
    """Return float32 rows near 64 centres, of which the first have many rows."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((64, dim))
    rows = centres[np.minimum(random.geometric(0.05, n), 64) - 1] + 0.3 * random.standard_normal((n, dim))
    return rows.astype(np.float32)


def all_rows(layer: DPQEmbedding) -> np.ndarray:
    return layer.eval()(torch.arange(layer.num_embeddings)).detach().numpy()


def codes_of(layer: DPQEmbedding) -> np.ndarray:
    """Return codes [n, D]."""
    return layer.to_packed().codes_of(np.arange(layer.num_embeddings)).astype(np.int64)


def values_of(layer: DPQEmbedding) -> np.ndarray:
    """Return float64 values [D, K, s], also for shared values."""
    value = layer.value.detach().double().numpy()
    return np.broadcast_to(value, (layer.num_groups, *value.shape[1:]))


def mean_cosine(rows: np.ndarray, found: np.ndarray) -> float:
    return torch.cosine_similarity(torch.from_numpy(rows), torch.from_numpy(found)).mean().item()


def check_nearest(layer: DPQEmbedding, weight: np.ndarray) -> None:
    """Assert in float64 that no other centroid is nearer to a row, up to the rounding of float32 distances."""
    groups = weight.astype(np.float64).reshape(len(weight), layer.num_groups, 1, -1)
    values = values_of(layer)  # [D, K, s]
    distances = np.square(groups - values).sum(-1)  # [n, D, K]
    chosen = np.take_along_axis(distances, codes_of(layer)[..., np.newaxis], 2)[..., 0]
    allowed = 2.0**-22 * distances.min(-1) + 1e-14 * np.square(np.abs(groups).max() + np.abs(values).max())
    is_right = chosen - distances.min(-1) <= allowed
    if layer.padding_idx is not None:
        is_right[layer.padding_idx] = True
    assert is_right.all()


@settings(max_examples=60)
@given(st.data())
def test_codes_of_every_size_are_nearest_and_exact_for_few_values(data):
    n, num_groups, width = (data.draw(st.integers(1, most), name) for name, most in (("n", 60), ("D", 4), ("s", 5)))
    num_codes = data.draw(st.sampled_from([2, 3, 5, 16, 64, 300]), "K")
    padding = data.draw(st.none() | st.integers(-n, n - 1), "padding_idx")
    shared = data.draw(st.booleans(), "share_subspaces")
    random = np.random.default_rng(data.draw(st.integers(0, 99), "seed"))
    few = data.draw(st.booleans(), "few numbers")
    numbers = (
        random.integers(-1, 2, (n, num_groups * width)) if few else random.standard_normal((n, num_groups * width))
    )
    weight = numbers.astype(np.float32)
    counts = (
        torch.from_numpy(random.integers(0, 3, n).astype(np.float32)) if data.draw(st.booleans(), "counts") else None
    )
    expected, counted = weight.copy(), np.ones(n, bool) if counts is None else counts.numpy() > 0
    if padding is not None:
        expected[padding], counted[padding] = 0, False
    if counts is not None and not counted.any():
        counts, counted = None, np.arange(n) != (padding if padding is None or padding >= 0 else n + padding)
    layer = dpq.fit(weight, num_codes, num_groups, padding, counts=counts, share_subspaces=shared)
    assert layer.frozen
    assert layer.value.shape == (1 if shared else num_groups, num_codes, width)
    check_nearest(layer, weight)
    rows = all_rows(layer)
    if padding is not None:
        assert not rows[padding].any()
        assert not layer.codes[padding].any()
    groups = expected[counted].reshape(-1, num_groups, width)
    for group in range(num_groups):
        points = groups.reshape(-1, width) if shared else groups[:, group]
        if len(np.unique(points, axis=0)) <= num_codes:
            np.testing.assert_array_equal(rows[counted].reshape(-1, num_groups, width)[:, group], groups[:, group])


@pytest.mark.parametrize("counts", [None, torch.arange(2000).remainder(7).float()])
@pytest.mark.parametrize("shared", [False, True])
def test_centroids_are_weighted_means_of_their_rows(counts, shared):
    weight = families() + 5  # far from zero, which costs float32 digits
    layer = dpq.fit(weight, 8, 4, counts=counts, share_subspaces=shared)
    check_nearest(layer, weight)
    codes, values = codes_of(layer), values_of(layer)
    weights = np.ones(2000) if counts is None else counts.double().numpy()
    groups = weight.astype(np.float64).reshape(2000, 4, 4)
    for group in range(1 if shared else 4):
        these = slice(None) if shared else slice(group, group + 1)
        points, code = groups[:, these].reshape(-1, 4), codes[:, these].reshape(-1)
        each = weights.repeat(4 if shared else 1)
        total = np.bincount(code, each, 8)
        means = np.stack([np.bincount(code, each * column, 8) for column in points.T], 1) / total[:, np.newaxis]
        got, least = (each @ np.square(points - centers[code]).sum(1) for centers in (values[group], means))
        assert got <= 1.001 * least  # means leave the least error; the last step of k-means moves few rows


def test_values_beyond_codes_use_k_means_and_others_are_exact():
    weight = np.random.default_rng(0).standard_normal((17, 6)).astype(np.float32).repeat(20, 0)
    assert np.array_equal(all_rows(dpq.fit(weight, 17, 2)), weight)
    error = np.square(all_rows(dpq.fit(weight, 16, 2)) - weight).reshape(340, 2, 3).sum(2)
    assert (error.max(0) > 1e-6).all()


def test_counts_shift_error_to_rare_rows():
    weight = families()
    counts = torch.ones(2000)
    counts[:200] = 1000
    plain, weighted = (np.square(all_rows(dpq.fit(weight, 64, 2, counts=each)) - weight) for each in (None, counts))
    assert weighted[:200].mean() < 0.8 * plain[:200].mean()
    assert weighted[200:].mean() > plain[200:].mean()
    error = (weighted.sum(1) * counts.numpy()).sum()
    assert error < 0.85 * (plain.sum(1) * counts.numpy()).sum()


def test_rows_that_never_occur_do_not_change_centroids():
    weight = families()
    counts = torch.ones(2000)
    counts[1000:] = 0
    half = dpq.fit(weight[:1000], 16, 2)
    spoiled = weight.copy()
    spoiled[1000:] *= 7
    for rows in (weight, spoiled):
        layer = dpq.fit(rows, 16, 2, counts=counts)
        assert torch.equal(layer.value, half.value)
        check_nearest(layer, rows)


def test_counts_matter_only_by_their_ratio():
    """Unscaled counts would be beyond float32."""
    weight, counts = families(500), torch.arange(1, 501).double()
    expected = dpq.fit(weight, 16, 2, counts=counts).value
    for factor in (2.0**-120, 2.0**130):
        assert torch.equal(dpq.fit(weight, 16, 2, counts=counts * factor).value, expected)
    for least, most in ((1e-300, 1e300), (2e-44, 1)):  # float32 holds sums of the second, not their reciprocals
        uneven = torch.full((500,), least, dtype=torch.float64)
        uneven[3] = most
        layer = dpq.fit(weight, 16, 2, counts=uneven)
        np.testing.assert_allclose(all_rows(layer)[3], weight[3], rtol=1e-5)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("padding_idx", [None, -3])
@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_trainable_layer_gives_frozen_rows_and_trains(shared, padding_idx, precision):
    weight = families(3000)
    weight[50:80] = weight[20:50]
    weight[100:150] = (weight[150:200] + weight[200:250]) / 2
    torch.set_float32_matmul_precision(precision)
    try:
        frozen = dpq.fit(weight, 37, 4, padding_idx, share_subspaces=shared)
    finally:
        torch.set_float32_matmul_precision("highest")
    state = torch.get_rng_state()
    layer = dpq.fit(weight, 37, 4, padding_idx, share_subspaces=shared, trainable=True)
    assert torch.equal(torch.get_rng_state(), state)
    assert (layer.variant, layer.distance_norm, layer.padding_idx) == ("vq", False, frozen.padding_idx)
    assert np.array_equal(all_rows(layer), all_rows(frozen))
    assert np.array_equal(layer.to_packed().codes, frozen.to_packed().codes)
    assert np.array_equal(np.delete(layer.query.detach().numpy(), 2997, 0), np.delete(weight, 2997, 0))
    ids, target = torch.arange(3000), torch.randn(3000, 16, generator=torch.Generator().manual_seed(0))
    layer.train()
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    before = {name: each.detach().clone() for name, each in layer.named_parameters()}
    for _ in range(2):  # in the first step centroids are the means of their queries, and stay
        optimizer.zero_grad()
        ((layer(ids) * target).sum() + layer.regularization_loss()).backward()
        optimizer.step()
    assert all((each != before[name]).any() for name, each in layer.named_parameters())
    assert before.keys() == {"query", "value"}
    after = all_rows(layer)
    assert np.array_equal(all_rows(layer.freeze()), after)


@pytest.mark.parametrize("offset", [0, 300, 30000])
def test_codes_match_layer_where_float32_products_are_too_coarse(offset):
    """Far from zero, distances are smaller than the rounding of products."""
    weight = families(1500) + np.float32(offset)
    layer, frozen = (dpq.fit(weight, 50, 4, trainable=trainable) for trainable in (True, False))
    assert torch.equal(torch.from_numpy(layer.to_packed().codes), frozen.codes)
    assert np.array_equal(all_rows(layer), all_rows(frozen))
    assert np.square(all_rows(frozen) - weight).mean() < 0.4


@pytest.mark.parametrize(("num_codes", "num_groups"), [(16, 4), (256, 8), (64, 1)])
def test_dpq_fit_is_as_good_as_product_quantiser_of_faiss(num_codes, num_groups):
    import faiss

    weight = families(4000)
    quantizer = faiss.ProductQuantizer(16, num_groups, int(math.log2(num_codes)))
    quantizer.train(weight)
    theirs = quantizer.decode(quantizer.compute_codes(weight))
    ours = all_rows(dpq.fit(weight, num_codes, num_groups))
    assert mean_cosine(weight, ours) >= mean_cosine(weight, theirs) - 1e-4
    assert np.square(weight - ours).sum() <= np.square(weight - theirs).sum()


def test_sample_of_rows_is_nearly_as_good_as_all(monkeypatch):
    weight, counts = families(20000), torch.ones(20000)
    counts[7] = 1e6  # that row is in every sample
    whole = dpq.fit(weight, 16, 4, counts=counts)
    monkeypatch.setattr(centroids, "_SAMPLE", 2000)
    points = []
    k_means = centroids._by_k_means
    monkeypatch.setattr(centroids, "_by_k_means", lambda each, *rest: points.append(len(each)) or k_means(each, *rest))
    sampled = dpq.fit(weight, 16, 4, counts=counts)
    assert len(points) == 4
    assert all(1800 < count < 2200 for count in points)
    error, more = (np.square(all_rows(layer) - weight).sum() for layer in (whole, sampled))
    assert error * 0.95 < more < error * 1.05
    assert np.square(all_rows(sampled) - weight)[7].sum() < 1e-3
    points.clear()
    dpq.fit(weight, 16, 4, share_subspaces=True)
    monkeypatch.setattr(centroids, "_SAMPLE_NUMBERS", 16)  # so wide a table exceeds this with two rows a code
    dpq.fit(weight, 16, 1)
    assert 1600 < points[0] < 2400
    assert 16 < points[1] < 60


def test_centroids_of_many_rows_start_on_a_part_without_loss(monkeypatch):
    weight = families(8000)
    runs = []

    def counted(name, runs_of):
        own = getattr(centroids, name)
        monkeypatch.setattr(
            centroids, name, lambda each, *rest: runs.append((len(each), runs_of(rest))) or own(each, *rest)
        )

    counted("k_means", lambda rest: rest[3])
    counted("improved", lambda rest: 1)

    def error(seed, **options):
        runs.clear()
        return np.square(all_rows(dpq.fit(weight, 16, 4, seed=seed, **options)) - weight).sum()

    whole = [error(seed) for seed in range(3)]
    assert runs == [(8000, 3)] * 4
    monkeypatch.setattr(centroids, "_MANY", 4000)
    parts = [error(seed) for seed in range(3)]
    assert runs.count((2000, 3)) == runs.count((8000, 1)) == 4
    assert sum(parts) < 1.01 * sum(whole)
    uneven = torch.ones(8000)
    uneven[7] = 1e4
    error(0, counts=uneven)
    assert runs == [(8000, 3)] * 4


def test_groups_with_centroids_are_counted(tmp_path):
    seen = []
    dpq.fit(families(300), 16, 8, on_group=lambda *at: seen.append(at))
    assert list(dict.fromkeys(seen)) == [(done, 8) for done in range(1, 9)]


def test_sample_probabilities_follow_weights():
    weights = torch.tensor([0, 1, 1, 2, 4, 100.0, 3, 1], dtype=torch.float64)
    chances = centroids._chances(weights, 4)
    assert chances[0] == 0
    assert chances[5] == 1
    torch.testing.assert_close(chances.sum(), torch.tensor(4.0, dtype=torch.float64))
    rest = [1, 2, 3, 4, 6, 7]
    torch.testing.assert_close(chances[rest] / weights[rest], torch.full((6,), 3 / 12, dtype=torch.float64))


def test_sampled_rows_count_for_those_left_out(monkeypatch):
    weight, counts = families(20000), torch.arange(20000).double()
    monkeypatch.setattr(centroids, "_SAMPLE", 1000)
    ids, sampled = centroids._sample(counts, 4, 1, weight.shape[1], 0)
    assert 900 < len(ids) == len(sampled) < 1100
    torch.testing.assert_close(sampled, torch.full_like(sampled, float(counts.sum()) / 1000))
    rows = DenseTable(weight, None).columns(ids, slice(1, 3), 0.5)
    np.testing.assert_array_equal(rows.numpy(), weight[ids.numpy(), 1:3] / 2)


def test_sub_vectors_with_few_values_are_exact_beyond_sample(monkeypatch):
    """A value that the sample lacks is found in the pass over all rows; for more than K values, k-means is used."""
    weight = np.zeros((3000, 4), np.float32)
    weight[:, 2:] = np.random.default_rng(0).standard_normal((3000, 2))
    weight[1234, :2] = -0.0, 3
    weight[2345, :2] = 1e-30
    weight[5, :2] = -0.0
    monkeypatch.setattr(centroids, "_SAMPLE", 300)
    monkeypatch.setattr(centroids, "_SAMPLE_PER_CODE", 1)
    monkeypatch.setattr(dense_table, "_BLOCK_NUMBERS", 400)
    assert np.array_equal(all_rows(dpq.fit(weight, 3, 2))[[0, 5, 1234]][:, :2], weight[[0, 5, 1234]][:, :2])
    layer = dpq.fit(weight, 2, 2)
    check_nearest(layer, weight)


@pytest.mark.parametrize("power", [-126, -110, -60, 0, 60, 110])
def test_numbers_of_every_size_give_same_codes(power):
    weight = families(600)
    expected = dpq.fit(weight, 32, 4)
    scaled = np.ldexp(weight.astype(np.float64), power)
    layer = dpq.fit(scaled, 32, 4)
    if power > -110:  # smaller numbers have fewer digits
        assert torch.equal(layer.codes, expected.codes)
        assert torch.equal(layer.value.double(), torch.ldexp(expected.value.double(), torch.tensor(power)))
    error = np.square(all_rows(layer).astype(np.float64) - scaled).sum() / np.square(scaled).sum()
    assert error < 0.2


def test_scale_that_cannot_be_trained_is_refused():
    with pytest.raises(
        BadInputError, match=r"numbers of size 1\.\de-30 to be trained, expected .*multiply .* by 2\*\*"
    ):
        dpq.fit(np.full((5, 2), 1.3e-30), 2, 1, trainable=True)
    dpq.fit(np.full((5, 2), 1.3e-30), 2, 1)
    dpq.fit(np.zeros((5, 2)), 2, 1, trainable=True)


def test_codes_of_largest_number_are_exact():
    weight = np.random.default_rng(0).standard_normal((70, 3)).astype(np.float32)
    layer = dpq.fit(weight, 65536, 1)
    assert layer.codes.shape == (70, 2)
    assert np.array_equal(all_rows(layer), weight)


def test_dpq_fit_prints_nothing(capfd):
    for n in (1, 3, 17, 40):
        dpq.fit(families(n), 16, 4)
    dpq.fit(families(3000).repeat(2, 0), 100, 4)
    assert capfd.readouterr() == ("", "")


def test_seed_gives_same_layer_with_any_number_of_threads():
    weight, threads = families(), torch.get_num_threads()
    try:
        layers = []
        for count in (1, 3):
            torch.set_num_threads(count)
            layers += [dpq.fit(weight, 16, 4, seed=5), dpq.fit(weight, 16, 4, seed=5, share_subspaces=True)]
    finally:
        torch.set_num_threads(threads)
    for first, second in zip(layers[:2], layers[2:], strict=True):
        assert torch.equal(first.value, second.value)
        assert torch.equal(first.codes, second.codes)
    assert not torch.equal(dpq.fit(weight, 16, 4, seed=6).value, layers[0].value)


def test_settings_of_torch_are_restored():
    threads = torch.get_num_threads()
    dpq.fit(families(100), 16, 4)
    assert (torch._C._get_mkldnn_enabled(), torch.get_num_threads()) == (True, threads)


def test_tables_of_every_kind_give_same_layer(tmp_path, monkeypatch):
    weight = families(500).astype(np.float16)
    expected = dpq.fit(weight.astype(np.float32), 20, 4, 3)
    np.save(tmp_path / "table.npy", weight)
    narrow = torch.from_numpy(weight)
    monkeypatch.setattr(dense_table, "_BLOCK_NUMBERS", 1000)
    done: list[int] = []
    kinds: list[dense_table.Weight] = [
        np.load(tmp_path / "table.npy", mmap_mode="r"),
        weight.astype(">f8"),
        narrow,
        torch.nn.Parameter(narrow.double()),
    ]
    for kind in kinds:
        done.clear()
        layer = dpq.fit(kind, 20, 4, 3, on_block=done.append)
        assert torch.equal(layer.value, expected.value)
        assert torch.equal(layer.codes, expected.codes)
        assert done == [*range(62, 500, 62), 500]
    done.clear()
    layer = dpq.fit(kinds[0], 20, 4, 3, trainable=True, on_block=done.append)
    assert done == [*range(62, 500, 62), 500]
    assert np.array_equal(all_rows(layer), all_rows(expected))
    assert torch.equal(dpq.fit(narrow.bfloat16(), 20, 4).value, dpq.fit(narrow.bfloat16().float(), 20, 4).value)


def test_row_that_is_not_finite_is_named_unless_padding():
    weight = np.where(np.arange(1600).reshape(100, 16) == 17 * 16 + 3, np.nan, families(100))
    with pytest.raises(BadInputError, match="row 17 contains NaN, infinity or a number too large for float32"):
        dpq.fit(weight, 16, 4)
    assert not all_rows(dpq.fit(weight, 16, 4, 17))[17].any()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_codes": 1}, "num_codes must be 2 to 65536, got 1"),
        ({"num_codes": 65537}, "num_codes must be 2 to 65536, got 65537"),
        ({"num_groups": 3}, "num_groups must divide embedding_dim, got 3 and 16"),
        ({"padding_idx": 100}, "padding_idx 100 is outside a table of 100 rows"),
        ({"share_subspaces": 1}, "share_subspaces must be True or False, got 1"),
        ({"trainable": "yes"}, "trainable must be True or False, got 'yes'"),
        ({"seed": -1}, "seed must be at least 0, got -1"),
        ({"seed": 0.5}, "seed must be an integer, got 0.5"),
        ({"counts": torch.ones(99)}, "counts: got 99, expected 100, one for each row"),
        ({"counts": torch.ones(100, 1)}, r"counts: got torch.float32 \[100, 1\], expected a number for each token"),
        ({"counts": torch.arange(100) - 3}, "counts: got -3 for row 0, expected none below 0"),
        ({"counts": torch.zeros(100)}, "counts: got only zeros, expected a number above 0; or leave counts out"),
        ({"counts": torch.arange(100) == 7, "padding_idx": 7}, "got only zeros outside the padding row, expected"),
        ({"weight": np.zeros((3, 2), np.int64)}, r"weight: got int64 \[3, 2\], expected floats \[n, d\]"),
    ],
)
def test_bad_input_names_what_was_expected(options, message):
    with pytest.raises(BadInputError, match=message):
        dpq.fit(**{"weight": families(100), "num_codes": 16, "num_groups": 4} | options)
