"""Rows do not depend on the batch: codes are the same one by one and all at once."""

import pytest
import torch

from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.ops import dpq, dpq_distance
from edge_embed.ops.dpq_distance import METRICS, Metric

SIZES = [(3, 5, 4), (1, 300, 12), (8, 16, 8), (2, 256, 32), (64, 16, 4), (16, 2, 1), (1, 64, 96)]  # D, K, s


@pytest.fixture(params=METRICS)
def metric(request: pytest.FixtureRequest) -> Metric:
    return request.param


def codes_in_blocks(size: int, query: torch.Tensor, *rest: object) -> torch.Tensor:
    return torch.cat([dpq_distance.codes(block, *rest) for block in query.split(size)])


def assert_same_in_any_batch(query: torch.Tensor, *rest: object) -> None:
    at_once = dpq_distance.codes(query, *rest)
    assert torch.equal(at_once, codes_in_blocks(37, query, *rest))
    assert torch.equal(at_once[:60], codes_in_blocks(1, query[:60], *rest))


@pytest.mark.parametrize(("groups", "num_codes", "width"), SIZES)
def test_codes_of_random_tables_are_equal_in_any_batch(metric, groups, num_codes, width):
    torch.manual_seed(1)
    query, key = torch.randn(1500, groups * width), torch.randn(groups, num_codes, width)
    statistics = torch.randn(num_codes), torch.rand(num_codes) + 0.1
    assert_same_in_any_batch(query, key, *statistics, metric)
    assert_same_in_any_batch(query, key[:1], None, None, metric)


@pytest.mark.parametrize(("groups", "num_codes", "width"), SIZES)
def test_keys_that_are_equal_give_lowest_code(metric, groups, num_codes, width):
    """Rounding decides these ties in float64, and the batch decides the rounding."""
    torch.manual_seed(2)
    half = num_codes // 2
    for _ in range(10):
        query, key = torch.randn(700, groups * width), torch.randn(groups, num_codes, width)
        key[:, half : 2 * half] = key[:, :half]
        assert_same_in_any_batch(query, key, None, None, metric)
        code = dpq_distance.codes(query, key, None, None, metric)
        assert ((code < half) | (code >= 2 * half)).all()


@pytest.mark.parametrize("metric", ["dot", "euclidean"])  # a cosine of single numbers is a sign
@pytest.mark.parametrize("step", [1, -1])
def test_keys_that_differ_in_last_bit_give_different_codes(metric, step):
    """Codes distinguish keys that differ in float32, unless distances are tiny differences."""
    key = torch.tensor([[[1.0], [1.0]]])
    key[0, 1] = torch.nextafter(key[0, 1], torch.tensor(float(step * 9)))
    query = torch.full((5, 1), 3.0)
    wanted = int(step > 0)
    expected = torch.full((5, 1), wanted)
    assert torch.equal(dpq_distance.codes(query, key, None, None, metric), expected)


def test_rows_one_by_one_equal_rows_of_a_batch(variant, share):
    torch.manual_seed(3)
    layer = DPQEmbedding(3000, 32, 16, 8, variant, share).eval()
    ids = torch.randint(0, 3000, (1000,))
    with torch.no_grad():
        at_once = layer(ids)
        one_by_one = torch.stack([layer(row) for row in ids[:200]])
    assert torch.equal(at_once[:200], one_by_one)
    assert torch.equal(layer(ids.reshape(10, 100)).flatten(0, 1), at_once)
    assert at_once.detach().numpy().tobytes() == layer.to_packed().rows(ids.numpy()).tobytes()


@pytest.mark.parametrize("threads", [2, 3])
def test_packing_is_equal_on_any_number_of_threads(threads):
    torch.manual_seed(4)
    layer = DPQEmbedding(20_000, 64, 16, 16)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        one = layer.to_packed().codes
        torch.set_num_threads(threads)
        assert layer.to_packed().codes.tobytes() == one.tobytes()
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_packing_progress_counts_every_row():
    layer = DPQEmbedding(20_000, 64, 16, 16)
    seen: list[int] = []
    dpq.pack(layer.query, layer.key, layer.value, None, None, "dot", None, seen.append)
    assert seen == sorted(set(seen))
    assert seen[-1] == 20_000
    assert len(seen) > 5


@pytest.mark.parametrize(("groups", "num_codes", "width"), SIZES)
def test_small_distances_between_large_vectors_give_nearest_codes(groups, num_codes, width):
    """-|q|^2 + 2<q, k> - |k|^2 cancels almost entirely here: float32 would leave only noise."""
    torch.manual_seed(5)
    query = 100 + 0.01 * torch.randn(500, groups * width)
    key = 100 + 0.01 * torch.randn(groups, num_codes, width)
    difference = query.double().view(500, groups, 1, width) - key.double()  # [B, D, K, s]
    nearest = difference.square().sum(-1).argmin(-1)
    assert torch.equal(dpq_distance.codes(query, key, None, None, "euclidean"), nearest)
    assert_same_in_any_batch(query, key, None, None, "euclidean")


class TestNearest:
    """The codes of training, whose input has the choices before the queries."""

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
    @pytest.mark.parametrize(("groups", "num_codes"), [(1, 2), (3, 5), (8, 16), (2, 300), (1, 65536)])
    def test_nearest_gives_largest_and_lowest_of_ties(self, dtype, groups, num_codes):
        torch.manual_seed(3)
        response = torch.randint(-4, 5, (groups, num_codes, 9)).to(dtype)  # with many ties
        expected = response.double().numpy().argmax(1)  # numpy guarantees the first
        assert torch.equal(dpq_distance.nearest(response), torch.from_numpy(expected))

    def test_nearest_accepts_infinities_and_no_queries(self):
        infinity = float("inf")
        response = torch.tensor([[1.0, -infinity], [infinity, -infinity], [infinity, -infinity]]).unsqueeze(0)
        assert dpq_distance.nearest(response).tolist() == [[1, 0]]
        assert dpq_distance.nearest(torch.empty(2, 5, 0)).shape == (2, 0)

    def test_nearest_of_nan_distances_gives_a_code(self):
        """A training run that diverges ends with losses of NaN, not with an index out of range."""
        assert dpq_distance.nearest(torch.full((1, 5, 3), float("nan"))).tolist() == [[4, 4, 4]]

    @pytest.mark.parametrize(("groups", "num_codes", "width"), SIZES)
    def test_nearest_matches_inference_where_distances_are_clear(self, metric, groups, num_codes, width):
        torch.manual_seed(4)
        query, key = torch.randn(200, groups * width).double(), torch.randn(groups, num_codes, width).double()
        weights = dpq_distance.affine(key, metric)
        response = dpq_distance.training_responses(query, weights, metric)
        largest = response.topk(2, dim=1).values
        is_clear = largest[:, 0] - largest[:, 1] > 1e-5
        expected = dpq_distance.codes(query, key, None, None, metric).t()
        assert torch.equal(dpq_distance.nearest(response)[is_clear], expected[is_clear])
        assert is_clear.float().mean() > 0.5 or (metric == "cosine" and width == 1)  # a cosine of numbers is a sign
