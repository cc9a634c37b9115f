"""Training steps of DPQ by the C++ kernels: compared with torch in float64, and torch where no kernel applies.

`is_as_exact` measures the allowed error of the kernels. ``runtime_ops/tests/test_training.cc`` compares them with
their formulas, with bounds of the roundings.
"""

import copy
import multiprocessing
from collections.abc import Callable, Iterator

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from edge_embed import DPQEmbedding
from edge_embed.ops import dpq_kernels, training_library
from edge_embed.ops.dpq import select
from edge_embed.ops.dpq_distance import METRICS, affine, feature_moments, training_codes, training_responses
from edge_embed.ops.dpq_straight_through import softmax_rows

# Rounding changes a distance by at most a hundred ULPs (a normalised sum of some 30 terms), so either of two distances
# that are closer may be the larger one.
CLEAR = 1e-4


@pytest.fixture(scope="module", autouse=True)
def _kernels_are_there() -> None:
    assert training_library.serves(torch.zeros(1)), "the package was built without its training library"


@pytest.fixture
def _in_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Use two threads even for little work, and assert that the test did."""
    monkeypatch.setattr(dpq_kernels, "_LEAST_WORK", 1)
    numbers, run = [], training_library._side_by_side
    monkeypatch.setattr(
        training_library, "_side_by_side", lambda part, count: numbers.append(count) or run(part, count)
    )
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)
    assert set(numbers) == {2}


def without_kernels(call: Callable[[], list[Tensor]]) -> list[Tensor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training_library, "library", lambda: None)
        return call()


def is_as_exact(
    got: list[Tensor], by_torch: list[Tensor], exact: list[Tensor], of_rounded: Callable[[], list[Tensor]]
) -> bool:
    """Return whether each largest error is at most ten times the error of torch in float32 plus one input rounding.

    Torch rounds as many operations in another order, but by chance some results are exact. Therefore the effect of one
    rounding of all inputs (`rounded`) is added to its error. A further 16 ULPs of the largest number are allowed,
    because gradients may be differences of terms of that size, if a norm over few rows makes them cancel.
    """
    moved = [of_rounded() for _ in range(3)]
    largest = max([float(wanted.abs().max()) for wanted in exact if wanted.numel()], default=0)
    for number, (found, other, wanted) in enumerate(zip(got, by_torch, exact, strict=True)):
        if wanted.numel():
            errors = [
                float((each.double() - wanted).abs().max()) for each in (found, other, *(m[number] for m in moved))
            ]
            if not errors[0] <= 10 * (errors[1] + max(errors[2:])) + 16 * 2**-24 * largest:
                return False
    return True


def rounded(exact: Tensor) -> Tensor:
    """Return float64 numbers, each changed by at most a rounding to float32."""
    return exact * (1 + 2**-24 * (2 * torch.rand_like(exact) - 1))


@st.composite
def layers(draw: st.DrawFn, metric: str | None, norm: bool | str) -> tuple[DPQEmbedding, Tensor]:
    """Draw a layer of SX with a metric, or of VQ without, with any other options, and ids for training."""
    groups, width, rows = draw(st.integers(1, 5)), draw(st.integers(1, 5)), draw(st.integers(2, 40))
    options: dict = {}
    if metric is not None:
        key_width = draw(st.integers(2 if metric == "cosine" else 1, 5))  # a direction needs two columns
        options = {
            "metric": metric,
            "key_dim": groups * key_width,
            "temperature": draw(st.sampled_from([0.3, 1.0, 4.0])),
        }
    torch.manual_seed(draw(st.integers(0, 2**20)))
    layer = DPQEmbedding(
        rows,
        groups * width,
        draw(st.sampled_from([2, 3, 5, 16, 17, 40])),
        groups,
        "vq" if metric is None else "sx",
        share_subspaces=draw(st.booleans()),
        padding_idx=draw(st.none() | st.integers(0, rows - 1)),
        distance_norm=norm,
        init_scale=1.0,
        **options,
    )
    return layer, torch.randint(0, rows, (draw(st.integers(0, 300)),))


def leads(layer: DPQEmbedding, ids: Tensor) -> Tensor:
    """Return the lead in response of each chosen code of a training step over the second, [D, B]."""
    each, counts = ids.unique(return_counts=True)
    if layer.padding_idx is not None:
        counts = counts.masked_fill(each == layer.padding_idx, 0)
    query = layer.query.detach()[each]
    with torch.no_grad():
        weights = layer._distance_weights(query, counts, update=False)
    first, second = training_responses(query, weights, layer.metric).topk(2, dim=1).values.unbind(1)
    return first - second


def step(layer: DPQEmbedding, ids: Tensor, gradient: Tensor) -> list[Tensor]:
    """Train a copy for one step, and return rows, gradients and running statistics."""
    layer = copy.deepcopy(layer)
    rows = layer(ids)
    rows.backward(gradient.to(rows.dtype))
    learned = [each.grad for each in layer.parameters() if each.grad is not None]
    statistics = [layer.running_mean, layer.running_var] if layer.distance_norm else []
    return [rows.detach(), *learned, *statistics]


def with_rounded(exact: DPQEmbedding) -> DPQEmbedding:
    """Return a copy of the layer with its parameters `rounded`."""
    moved = copy.deepcopy(exact)
    for parameter in moved.parameters():
        parameter.data = rounded(parameter.data)
    return moved


@pytest.mark.parametrize("norm", [True, "per_group", False])
@pytest.mark.parametrize("metric", [*METRICS, None])
@settings(max_examples=20)
@given(data=st.data())
def test_training_step_matches_torch_in_float64(metric: str | None, norm: bool | str, data: st.DataObject) -> None:
    layer, ids = data.draw(layers(metric, norm))
    exact = copy.deepcopy(layer).double()
    assume(bool((leads(exact, ids) > CLEAR).all()))
    gradient = torch.randn(len(ids), layer.embedding_dim)
    got, wanted = step(layer, ids, gradient), step(exact, ids, gradient)
    assert got[0].double().equal(wanted[0])  # equal to the bit
    by_torch = without_kernels(lambda: step(layer, ids, gradient))
    assert is_as_exact(got, by_torch, wanted, lambda: step(with_rounded(exact), ids, gradient))


@pytest.mark.usefixtures("_in_parts")
def test_training_step_of_many_ids_matches_torch_in_float64() -> None:
    """Covers several blocks and threads. Rows without a clear choice get a gradient of zero, so they have no effect."""
    torch.manual_seed(0)
    layer = DPQEmbedding(3000, 32, 64, 8, init_scale=1.0, metric="euclidean")
    exact, ids = copy.deepcopy(layer).double(), torch.randint(0, 3000, (5000,))
    is_clear = torch.ones(3000, 8, dtype=torch.bool)
    is_clear[ids.unique()] = (leads(exact, ids) > CLEAR).t()
    assert is_clear.float().mean() > 0.99
    gradient = torch.randn(5000, 32) * is_clear[ids].repeat_interleave(4, 1)
    got, wanted = step(layer, ids, gradient), step(exact, ids, gradient)
    differs = (got[0].double() != wanted[0]).unflatten(1, (8, 4)).any(2)
    assert not (differs & is_clear[ids]).any()
    by_torch = without_kernels(lambda: step(layer, ids, gradient))
    assert is_as_exact(got[1:], by_torch[1:], wanted[1:], lambda: step(with_rounded(exact), ids, gradient)[1:])


@given(st.sampled_from(METRICS), st.integers(1, 4), st.integers(1, 5), st.integers(0, 200), st.floats(0, 3))
def test_moments_are_as_exact_as_two_passes_of_torch(metric, groups, width, rows, offset) -> None:
    """Covers queries far from the origin, for which a single pass would be inexact."""
    assume(metric != "cosine" or width > 1)  # a direction needs two columns
    torch.manual_seed(rows)
    query = (torch.randn(rows, groups * width) + 10**offset - 1).requires_grad_()
    places = torch.randint(0, max(1, rows), (1024 if rows else 0,))
    shares = torch.bincount(places, minlength=rows) / 1024  # their sum is exactly 1
    features = width + (2 if metric == "euclidean" else 1)
    to_sums, to_products = torch.randn(groups, features), torch.randn(groups, features, features)

    def found(query: Tensor) -> list[Tensor]:
        centre, covariance = feature_moments(query, shares.to(query.dtype), features, metric)
        given = [to_sums.to(query.dtype), to_products.to(query.dtype)]
        return [centre.detach(), covariance.detach(), *torch.autograd.grad([centre, covariance], query, given)]

    wide = query.detach().double()
    by_torch, wanted = without_kernels(lambda: found(query)), found(wide.clone().requires_grad_())
    assert is_as_exact(found(query), by_torch, wanted, lambda: found(rounded(wide).requires_grad_()))


def drawn(metric: str = "dot", groups: int = 3, rows: int = 70, codes: int = 9, width: int = 4) -> list[Tensor]:
    """Draw query, weights, value and gradient."""
    torch.manual_seed(rows)
    key, value = torch.randn(groups, codes, width), torch.randn(groups, codes, 2)
    return [torch.randn(rows, groups * width), affine(key, metric), value, torch.randn(rows, groups * 2)]


def soft_gradients(query: Tensor, weights: Tensor, value: Tensor, gradient: Tensor, metric: str) -> list[Tensor]:
    of = dpq_kernels.distances(query, weights, metric)
    codes, _ = dpq_kernels.nearest_and_leads(of)
    return [codes, *dpq_kernels.soft_backward(of, value, codes, 0.7, gradient)]


@pytest.mark.parametrize("metric", METRICS)
def test_kernels_match_functions_of_torch(metric: str) -> None:
    query, weights, value, gradient = drawn(metric)
    _, *got = soft_gradients(query, weights, value, gradient, metric)
    codes, ahead = dpq_kernels.nearest_and_leads(dpq_kernels.distances(query, weights, metric))
    first, second = training_responses(query.double(), weights.double(), metric).topk(2, dim=1).values.unbind(1)
    torch.testing.assert_close(ahead, (first - second).float(), rtol=0, atol=1e-5)  # sums of six terms below 30
    is_clear = ahead > CLEAR
    expected = training_codes(query.double(), weights.double(), metric)
    assert codes[is_clear].equal(expected[is_clear].int())
    assert is_clear.all()
    assert training_codes(query, weights, metric).equal(codes)
    assert dpq_kernels.rows(value, codes).equal(select(value, codes.t()))

    def learned(*inputs: Tensor) -> list[Tensor]:
        leaves = [each.clone().requires_grad_() for each in inputs]
        rows = softmax_rows(*leaves, metric, 0.7, {})
        return list(torch.autograd.grad(rows, leaves, gradient.to(rows.dtype)))

    inputs = query, weights, value
    wide = [each.double() for each in inputs]
    by_torch = without_kernels(lambda: learned(*inputs))
    assert is_as_exact(got, by_torch, learned(*wide), lambda: learned(*map(rounded, wide)))


def test_nearest_chooses_lowest_of_equal_codes() -> None:
    query, weights, _, _ = drawn(codes=4)
    twice = torch.cat([weights, weights], -1)
    codes, ahead = dpq_kernels.nearest_and_leads(dpq_kernels.distances(query, twice, "dot"))
    assert codes.max() < 4
    assert (ahead == 0).all()


@pytest.mark.parametrize("share", [False, True])
def test_centroid_gradients_match_formula(share: bool) -> None:
    query, _, _, _ = drawn()
    value, codes = torch.randn(1 if share else 3, 9, 4), torch.randint(0, 9, (3, 70), dtype=torch.int32)
    shares, wanted = torch.rand(70), torch.zeros(value.shape, dtype=torch.float64)
    for row in range(70):
        for group in range(3):
            at = 0 if share else group, codes[group, row]
            wanted[at] += 2 * shares[row].double() * (value[at] - query[row, 4 * group : 4 * group + 4]).double()
    got = dpq_kernels.centroid_backward(query, value, codes, shares)
    # Differences of numbers below 5, times shares below 1, are rounded twice; at most 70 of them are added in float64.
    torch.testing.assert_close(got.double(), wanted, rtol=2**-23, atol=70 * 2 * 10 * 2**-23)


@pytest.mark.usefixtures("_in_parts")
@pytest.mark.parametrize("metric", METRICS)
def test_threads_give_same_rows_and_query_gradients_to_bit(metric: str) -> None:
    query, weights, value, gradient = drawn(metric, rows=333)
    both = soft_gradients(query, weights, value, gradient, metric)
    shares, features = torch.full((333,), 1 / 333), weights.shape[1]
    centre, covariance = dpq_kernels.moments(query, shares, features, metric)
    given = query, shares, metric, centre, torch.randn_like(centre), torch.randn_like(covariance)
    of_query, rows = dpq_kernels.moments_backward(*given), dpq_kernels.rows(value, both[0])
    torch.set_num_threads(1)
    alone = soft_gradients(query, weights, value, gradient, metric)
    assert both[0].equal(alone[0])
    assert both[1].equal(alone[1])
    assert rows.equal(dpq_kernels.rows(value, alone[0]))
    assert of_query.equal(dpq_kernels.moments_backward(*given))
    for found, wanted in zip(
        (*both[2:], centre, covariance),
        (*alone[2:], *dpq_kernels.moments(query, shares, features, metric)),
        strict=True,
    ):  # sums over 333 queries in other blocks: terms of some 10, rounded a few times each
        torch.testing.assert_close(found, wanted, rtol=0, atol=333 * 10 * 2**-23)


@pytest.mark.usefixtures("_in_parts")
@pytest.mark.parametrize("variant", ["sx", "vq"])
def test_threads_give_same_training_step(variant: str) -> None:
    layer, ids, gradient = some_layer(variant, distance_norm=False)
    both = step(layer, ids, gradient)
    torch.set_num_threads(1)
    alone = step(layer, ids, gradient)
    same_step(both, alone)
    assert both[1].equal(alone[1])  # gradient of the query


def some_layer(variant: str = "sx", **options: object) -> tuple[DPQEmbedding, Tensor, Tensor]:
    torch.manual_seed(3)
    layer = DPQEmbedding(50, 12, 5, 3, variant, init_scale=1.0, **options)
    return layer, torch.randint(0, 50, (80,)), torch.randn(80, 12)


def same_step(found: list[Tensor], wanted: list[Tensor]) -> None:
    """Assert rows equal to the bit; the others are sums of some 80 numbers below 10, each rounded some ten times."""
    assert found[0].equal(wanted[0])
    for one, other in zip(found[1:], wanted[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=80 * 10 * 2**-24)


@pytest.mark.parametrize("norm", [True, "per_group", False])
@pytest.mark.parametrize("variant", ["sx", "vq"])
class TestEveryOption:
    def test_training_without_library_gives_same_step(self, variant: str, norm: bool | str) -> None:
        made = some_layer(variant, distance_norm=norm)
        same_step(without_kernels(lambda: step(*made)), step(*made))

    def test_compiled_layer_gives_same_query_gradient(self, variant: str, norm: bool | str) -> None:
        layer, ids, gradient = some_layer(variant, distance_norm=norm)
        ids = ids.unique()  # a traced layer does not count repeated ids
        wanted = step(layer, ids, gradient[: len(ids)])
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        compiled(ids).backward(gradient[: len(ids)])
        torch.testing.assert_close(layer.query.grad, wanted[1], rtol=0, atol=80 * 10 * 2**-24)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
    def test_types_except_float32_are_computed_by_torch(
        self, variant: str, norm: bool | str, dtype: torch.dtype
    ) -> None:
        layer, ids, gradient = some_layer(variant, distance_norm=norm, dtype=dtype)
        assert not training_library.serves(layer.query)
        rows, *learned = step(layer, ids, gradient)
        assert rows.dtype == dtype
        assert all(each.isfinite().all() for each in learned)

    def test_empty_batch_gives_zero_gradients(self, variant: str, norm: bool | str) -> None:
        layer, ids, gradient = some_layer(variant, distance_norm=norm)
        rows, *learned = step(layer, ids[:0], gradient[:0])
        assert rows.shape == (0, 12)
        assert not any(each.any() for each in learned[: len(list(layer.parameters()))])

    def test_checkpointed_step_is_equal_to_bit(self, variant: str, norm: bool | str) -> None:
        layer, ids, gradient = some_layer(variant, distance_norm=norm)
        wanted = step(layer, ids, gradient)
        rows = checkpoint(layer, ids, use_reentrant=False)
        rows.backward(gradient)
        statistics = [layer.running_mean, layer.running_var] if norm else []
        learned = [each.grad for each in layer.parameters()]
        assert all(map(Tensor.equal, [rows, *learned, *statistics], wanted))

    def test_autocast_leaves_rows_and_gradients_in_float32(self, variant: str, norm: bool | str) -> None:
        made = some_layer(variant, distance_norm=norm)
        with torch.autocast("cpu", torch.bfloat16):
            rows, *learned = step(*made)
        assert rows.dtype == torch.float32
        assert all(each.dtype == torch.float32 and each.isfinite().all() for each in learned)
        if not norm:  # statistics are matrix products, which autocast rounds
            assert all(map(Tensor.equal, [rows, *learned], step(*made)))

    def test_meta_layer_gives_rows_of_right_shape(self, variant: str, norm: bool | str) -> None:
        layer, ids, gradient = some_layer(variant, distance_norm=norm, device="meta")
        assert not training_library.serves(layer.query)
        rows, *_ = step(layer, ids.to("meta"), gradient.to("meta"))
        assert rows.shape == (80, 12)


@pytest.mark.parametrize("variant", ["sx", "vq"])
@pytest.mark.parametrize("name", ["query", "value"])
def test_functional_transforms_give_gradients_of_backward(variant: str, name: str) -> None:
    layer, ids, gradient = some_layer(variant, distance_norm=False)
    layer(ids).backward(gradient)
    tensor, seen = layer.get_parameter(name).detach(), []

    def loss(tensor: Tensor) -> Tensor:
        seen.append(training_library.serves(tensor))
        return (torch.func.functional_call(layer, {name: tensor}, (ids,)) * gradient).sum()

    torch.testing.assert_close(torch.func.grad(loss)(tensor), layer.get_parameter(name).grad, rtol=0, atol=1e-4)
    torch.func.vmap(lambda each: [seen.append(training_library.serves(each)), each][1])(tensor)
    assert seen == [False, False]


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("variant", ["sx", "vq"])
def test_traced_layer_computes_with_new_ids(variant: str) -> None:
    layer, ids, _ = some_layer(variant, distance_norm=False)
    traced = torch.jit.trace(layer, ids, check_trace=False)
    others = (ids + 1) % 50
    assert traced(others).equal(layer(others))


@pytest.mark.parametrize("norm", [True, "per_group", False])
def test_gradients_can_be_differentiated_again(norm: bool | str) -> None:
    """Compares a penalty on gradients with that of torch."""

    def penalised() -> list[Tensor]:
        layer, ids, gradient = some_layer(distance_norm=norm)
        (first,) = torch.autograd.grad((layer(ids).square() * gradient).sum(), layer.query, create_graph=True)
        first.square().sum().backward()
        return [layer.query.grad, layer.key.grad]

    for found, wanted in zip(penalised(), without_kernels(penalised), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


class _Marked(Tensor):
    """A subclass of tensors."""


def test_subclass_of_tensors_is_computed_by_torch() -> None:
    layer, ids, gradient = some_layer()
    wanted = step(layer, ids, gradient)
    layer.query = nn.Parameter(layer.query.detach().as_subclass(_Marked))
    assert not training_library.serves(layer.query)
    layer(ids).backward(gradient)
    torch.testing.assert_close(layer.query.grad.as_subclass(Tensor), wanted[1], rtol=0, atol=80 * 10 * 2**-24)


@pytest.mark.parametrize("metric", METRICS)
def test_kernels_accept_noncontiguous_tensors(metric: str) -> None:
    query, weights, value, gradient = drawn(metric)
    wanted = soft_gradients(query, weights, value, gradient, metric)
    strided = [
        query.t().contiguous().t(),
        weights.transpose(1, 2).contiguous().transpose(1, 2),
        torch.stack([value, value], -1)[..., 0],
        torch.cat([gradient, gradient], 1)[:, : gradient.shape[1]],
    ]
    assert not any(each.is_contiguous() for each in strided)
    assert all(map(Tensor.equal, soft_gradients(*strided, metric), wanted))
    shares, features = torch.rand(140)[::2], weights.shape[1]
    moments = dpq_kernels.moments(query, shares.contiguous(), features, metric)
    assert all(map(Tensor.equal, dpq_kernels.moments(strided[0], shares, features, metric), moments))
    every = torch.ones(()).expand(70, value.shape[0] * 2)  # the gradient of rows.sum()
    spread = soft_gradients(query, weights, value, every, metric)
    assert all(map(Tensor.equal, spread, soft_gradients(query, weights, value, every.contiguous(), metric)))


def _train_in_child(layer: DPQEmbedding, ids: Tensor, gradient: Tensor, wanted: list[Tensor]) -> None:
    assert torch.get_num_threads() == 2
    assert all(map(Tensor.equal, step(layer, ids, gradient), wanted))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="a system without fork")
@pytest.mark.usefixtures("_in_parts")
def test_forked_process_trains_with_same_result() -> None:
    made = some_layer()
    wanted = step(*made)
    child = multiprocessing.get_context("fork").Process(target=_train_in_child, args=(*made, wanted))
    child.start()
    child.join(60)
    code = child.exitcode
    child.kill()
    assert code == 0
