"""Training steps of DPQ by the C++ kernels: what torch computes in float64, and torch itself where kernels are not.

What the kernels may be off by is measured (`is_as_exact`). Against their formulas, with bounds of the roundings, they
are tested in ``runtime_ops/tests/test_training.cc``.
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
from edge_embed.ops import dpq_kernels
from edge_embed.ops.dpq import select
from edge_embed.ops.dpq_distance import METRICS, affine, feature_moments, training_codes, training_responses
from edge_embed.ops.dpq_straight_through import softmax_rows

# Rounding moves a distance by a hundred units in the last place at most (a sum of some 30 terms, normalised); of two
# distances that lie closer either may be the larger one.
CLEAR = 1e-4


@pytest.fixture(scope="module", autouse=True)
def _kernels_are_there() -> None:
    assert dpq_kernels.serves(torch.zeros(1)), "the package was built without its training library"


@pytest.fixture
def _in_parts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two threads, even for little work."""
    monkeypatch.setattr(dpq_kernels, "_LEAST_WORK", 1)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def without_kernels(call: Callable[[], list[Tensor]]) -> list[Tensor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dpq_kernels, "_library", lambda: None)
        return call()


def is_as_exact(
    got: list[Tensor], by_torch: list[Tensor], exact: list[Tensor], of_rounded: Callable[[], list[Tensor]]
) -> bool:
    """Whether no largest error is ten times what torch in float32 and one rounding of all inputs (`rounded`) cause.

    Torch rounds as many operations, in another order, but few of them by chance not at all; and inputs that were
    rounded are all that float32 can know. Nor are 16 units in the last place of the largest number found an error:
    gradients may be what is left of terms as large, where a norm over few rows makes them cancel.
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
    """Numbers of float64, each moved by as much as rounding to float32 may."""
    return exact * (1 + 2**-24 * (2 * torch.rand_like(exact) - 1))


@st.composite
def layers(draw: st.DrawFn, metric: str | None, norm: bool | str) -> tuple[DPQEmbedding, Tensor]:
    """A layer of SX by a metric, or of VQ by none, with any other options; and ids that it is trained with."""
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
    """By how much each code of a training step is nearer than the next one, [D, B]."""
    each, counts = ids.unique(return_counts=True)
    if layer.padding_idx is not None:
        counts = counts.masked_fill(each == layer.padding_idx, 0)
    query = layer.query.detach()[each]
    with torch.no_grad():
        weights = layer._distance_weights(query, counts, update=False)
    first, second = training_responses(query, weights, layer.metric).topk(2, dim=1).values.unbind(1)
    return first - second


def step(layer: DPQEmbedding, ids: Tensor, gradient: Tensor) -> list[Tensor]:
    """A copy learns once: rows, gradients and running statistics."""
    layer = copy.deepcopy(layer)
    rows = layer(ids)
    rows.backward(gradient.to(rows.dtype))
    learned = [each.grad for each in layer.parameters() if each.grad is not None]
    statistics = [layer.running_mean, layer.running_var] if layer.distance_norm else []
    return [rows.detach(), *learned, *statistics]


def with_rounded(exact: DPQEmbedding) -> DPQEmbedding:
    """The layer with its parameters `rounded`."""
    moved = copy.deepcopy(exact)
    for parameter in moved.parameters():
        parameter.data = rounded(parameter.data)
    return moved


@pytest.mark.parametrize("norm", [True, "per_group", False])
@pytest.mark.parametrize("metric", [*METRICS, None])
@settings(max_examples=20)
@given(data=st.data())
def test_a_step_is_that_of_torch_in_float64(metric: str | None, norm: bool | str, data: st.DataObject) -> None:
    layer, ids = data.draw(layers(metric, norm))
    exact = copy.deepcopy(layer).double()
    assume(bool((leads(exact, ids) > CLEAR).all()))
    gradient = torch.randn(len(ids), layer.embedding_dim)
    got, wanted = step(layer, ids, gradient), step(exact, ids, gradient)
    assert got[0].double().equal(wanted[0])  # the very values
    by_torch = without_kernels(lambda: step(layer, ids, gradient))
    assert is_as_exact(got, by_torch, wanted, lambda: step(with_rounded(exact), ids, gradient))


@pytest.mark.usefixtures("_in_parts")
def test_a_long_step_is_that_of_torch_in_float64() -> None:
    """Several blocks and threads. Gradients of rows whose choice is not clear are zero: they teach neither anything."""
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
    """Also of queries that lie far from the origin, which one pass alone would lose."""
    assume(metric != "cosine" or width > 1)  # a direction needs two numbers
    torch.manual_seed(rows)
    query = (torch.randn(rows, groups * width) + 10**offset - 1).requires_grad_()
    places = torch.randint(0, max(1, rows), (1024 if rows else 0,))
    shares = torch.bincount(places, minlength=rows) / 1024  # their sum is 1, not almost
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
    """Query, weights, value, gradient."""
    torch.manual_seed(rows)
    key, value = torch.randn(groups, codes, width), torch.randn(groups, codes, 2)
    return [torch.randn(rows, groups * width), affine(key, metric), value, torch.randn(rows, groups * 2)]


def soft_gradients(query: Tensor, weights: Tensor, value: Tensor, gradient: Tensor, metric: str) -> list[Tensor]:
    of = dpq_kernels.distances(query, weights, metric)
    codes, _ = dpq_kernels.nearest_and_leads(of)
    return [codes, *dpq_kernels.soft_backward(of, value, codes, 0.7, gradient)]


@pytest.mark.parametrize("metric", METRICS)
def test_functions_are_those_of_torch(metric: str) -> None:
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


def test_the_lowest_of_equal_codes_is_chosen() -> None:
    query, weights, _, _ = drawn(codes=4)
    twice = torch.cat([weights, weights], -1)
    codes, ahead = dpq_kernels.nearest_and_leads(dpq_kernels.distances(query, twice, "dot"))
    assert codes.max() < 4
    assert (ahead == 0).all()


@pytest.mark.parametrize("share", [False, True])
def test_centroids_learn_what_the_formula_says(share: bool) -> None:
    query, _, _, _ = drawn()
    value, codes = torch.randn(1 if share else 3, 9, 4), torch.randint(0, 9, (3, 70), dtype=torch.int32)
    shares, wanted = torch.rand(70), torch.zeros(value.shape, dtype=torch.float64)
    for row in range(70):
        for group in range(3):
            at = 0 if share else group, codes[group, row]
            wanted[at] += 2 * shares[row].double() * (value[at] - query[row, 4 * group : 4 * group + 4]).double()
    got = dpq_kernels.centroid_backward(query, value, codes, shares)
    # Differences of numbers below 5, times shares below 1, are rounded twice; 70 or fewer of them are added in float64.
    torch.testing.assert_close(got.double(), wanted, rtol=2**-23, atol=70 * 2 * 10 * 2**-23)


@pytest.mark.usefixtures("_in_parts")
@pytest.mark.parametrize("metric", METRICS)
def test_two_threads_give_the_rows_and_gradients_of_one_to_the_bit(metric: str) -> None:
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
def test_two_threads_train_like_one(variant: str) -> None:
    layer, ids, gradient = some_layer(variant, distance_norm=False)
    both = step(layer, ids, gradient)
    torch.set_num_threads(1)
    alone = step(layer, ids, gradient)
    assert both[0].equal(alone[0])
    assert both[1].equal(alone[1])  # of the query


def some_layer(variant: str = "sx", **options: object) -> tuple[DPQEmbedding, Tensor, Tensor]:
    torch.manual_seed(3)
    layer = DPQEmbedding(50, 12, 5, 3, variant, init_scale=1.0, **options)
    return layer, torch.randint(0, 50, (80,)), torch.randn(80, 12)


def same_step(found: list[Tensor], wanted: list[Tensor]) -> None:
    """Rows to the bit; the rest are sums of some 80 numbers below 10, each rounded some ten times."""
    assert found[0].equal(wanted[0])
    for one, other in zip(found[1:], wanted[1:], strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=80 * 10 * 2**-24)


@pytest.mark.parametrize("norm", [True, "per_group", False])
@pytest.mark.parametrize("variant", ["sx", "vq"])
class TestEveryOption:
    def test_training_needs_no_library(self, variant: str, norm: bool | str) -> None:
        made = some_layer(variant, distance_norm=norm)
        same_step(without_kernels(lambda: step(*made)), step(*made))

    def test_a_compiled_layer_learns_the_same(self, variant: str, norm: bool | str) -> None:
        layer, ids, gradient = some_layer(variant, distance_norm=norm)
        ids = ids.unique()  # a traced layer does not count how often an id comes
        wanted = step(layer, ids, gradient[: len(ids)])
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        compiled(ids).backward(gradient[: len(ids)])
        torch.testing.assert_close(layer.query.grad, wanted[1], rtol=0, atol=80 * 10 * 2**-24)

    @pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
    def test_other_types_go_by_way_of_torch(self, variant: str, norm: bool | str, dtype: torch.dtype) -> None:
        layer, ids, gradient = some_layer(variant, distance_norm=norm, dtype=dtype)
        assert not dpq_kernels.serves(layer.query)
        rows, *learned = step(layer, ids, gradient)
        assert rows.dtype == dtype
        assert all(each.isfinite().all() for each in learned)

    def test_no_rows_teach_nothing(self, variant: str, norm: bool | str) -> None:
        layer, ids, gradient = some_layer(variant, distance_norm=norm)
        rows, *learned = step(layer, ids[:0], gradient[:0])
        assert rows.shape == (0, 12)
        assert not any(each.any() for each in learned[: len(list(layer.parameters()))])

    def test_a_checkpointed_step_is_the_same(self, variant: str, norm: bool | str) -> None:
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

    def test_a_layer_without_memory_has_shapes(self, variant: str, norm: bool | str) -> None:
        layer, ids, gradient = some_layer(variant, distance_norm=norm, device="meta")
        assert not dpq_kernels.serves(layer.query)
        rows, *_ = step(layer, ids.to("meta"), gradient.to("meta"))
        assert rows.shape == (80, 12)


@pytest.mark.parametrize("variant", ["sx", "vq"])
@pytest.mark.parametrize("name", ["query", "value"])
def test_transforms_of_functions_give_the_gradients_of_backward(variant: str, name: str) -> None:
    layer, ids, gradient = some_layer(variant, distance_norm=False)
    layer(ids).backward(gradient)
    tensor, seen = layer.get_parameter(name).detach(), []

    def loss(tensor: Tensor) -> Tensor:
        seen.append(dpq_kernels.serves(tensor))
        return (torch.func.functional_call(layer, {name: tensor}, (ids,)) * gradient).sum()

    torch.testing.assert_close(torch.func.grad(loss)(tensor), layer.get_parameter(name).grad, rtol=0, atol=1e-4)
    torch.func.vmap(lambda each: [seen.append(dpq_kernels.serves(each)), each][1])(tensor)
    assert seen == [False, False]


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning", "ignore::torch.jit.TracerWarning")
@pytest.mark.parametrize("variant", ["sx", "vq"])
def test_a_traced_layer_computes_when_it_is_called(variant: str) -> None:
    layer, ids, _ = some_layer(variant, distance_norm=False)
    traced = torch.jit.trace(layer, ids, check_trace=False)
    others = (ids + 1) % 50
    assert traced(others).equal(layer(others))


@pytest.mark.parametrize("norm", [True, "per_group", False])
def test_gradients_can_be_differentiated(norm: bool | str) -> None:
    """A penalty on gradients, as torch has it."""

    def penalised() -> list[Tensor]:
        layer, ids, gradient = some_layer(distance_norm=norm)
        (first,) = torch.autograd.grad((layer(ids).square() * gradient).sum(), layer.query, create_graph=True)
        first.square().sum().backward()
        return [layer.query.grad, layer.key.grad]

    for found, wanted in zip(penalised(), without_kernels(penalised), strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-4)


class _Marked(Tensor):
    """A tensor with a meaning of its own."""


def test_a_subclass_of_tensors_goes_by_way_of_torch() -> None:
    layer, ids, gradient = some_layer()
    wanted = step(layer, ids, gradient)
    layer.query = nn.Parameter(layer.query.detach().as_subclass(_Marked))
    assert not dpq_kernels.serves(layer.query)
    layer(ids).backward(gradient)
    torch.testing.assert_close(layer.query.grad.as_subclass(Tensor), wanted[1], rtol=0, atol=80 * 10 * 2**-24)


@pytest.mark.parametrize("metric", METRICS)
def test_tensors_need_not_be_contiguous(metric: str) -> None:
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
    every = torch.ones(()).expand(70, value.shape[0] * 2)  # of rows.sum()
    spread = soft_gradients(query, weights, value, every, metric)
    assert all(map(Tensor.equal, spread, soft_gradients(query, weights, value, every.contiguous(), metric)))


def _train_in_child(layer: DPQEmbedding, ids: Tensor, gradient: Tensor, wanted: list[Tensor]) -> None:
    assert all(map(Tensor.equal, step(layer, ids, gradient), wanted))


@pytest.mark.skipif("fork" not in multiprocessing.get_all_start_methods(), reason="a system without fork")
@pytest.mark.usefixtures("_in_parts")
def test_a_forked_process_trains_on_threads_of_its_own() -> None:
    made = some_layer()
    wanted = step(*made)
    child = multiprocessing.get_context("fork").Process(target=_train_in_child, args=(*made, wanted))
    child.start()
    child.join(60)
    code = child.exitcode
    child.kill()
    assert code == 0
