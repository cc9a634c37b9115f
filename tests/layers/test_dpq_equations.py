"""DPQ-SX with every option against eq. (1) to (5), written out with loops in float64 and differentiated by autograd.

As in the authors' code, V gets the gradient of the one-hot choice; queries and keys get that of the soft choice.
"""

from dataclasses import dataclass

import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from edge_embed.layers.dpq import DPQEmbedding

EPS = 1e-5  # of the batch norm


@dataclass
class Case:
    layer: DPQEmbedding
    ids: Tensor
    gradient: Tensor  # gradient from the rest of the model, [B, d]

    @property
    def kept(self) -> Tensor:
        """Return which ids are no padding, bool [B]."""
        padding = -1 if self.layer.padding_idx is None else self.layer.padding_idx
        return self.ids != padding

    def groups(self, matrix: Tensor) -> Tensor:
        """Return columns in D groups: Q^(j) of section 2.1."""
        return matrix.reshape(len(matrix), self.layer.num_groups, matrix.shape[1] // self.layer.num_groups)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    rows, num_codes, num_groups = draw(st.integers(1, 5)), draw(st.integers(2, 5)), draw(st.integers(1, 3))
    tied = draw(st.booleans())
    metric = draw(st.sampled_from(["dot", "euclidean", "cosine"]))
    widths = st.integers(1 + (metric == "cosine"), 3)
    width = draw(widths)
    torch.manual_seed(draw(st.integers(0, 2**31)))
    layer = DPQEmbedding(
        rows, num_groups * width, num_codes, num_groups,
        metric=metric,
        share_subspaces=draw(st.booleans()),
        distance_norm=draw(st.sampled_from([True, False, "per_group"])),
        padding_idx=draw(st.none() | st.integers(0, rows - 1)),
        tie_key_value=tied,
        key_dim=None if tied else num_groups * draw(widths),
        temperature=draw(st.sampled_from([1.0, 0.3, 4.0])),
        learn_temperature=draw(st.booleans()),
        init_scale=1.0,
        dtype=torch.float64,
    )  # fmt: skip
    ids = torch.tensor(draw(st.lists(st.integers(0, rows - 1), max_size=8)), dtype=torch.int64)
    return Case(layer, ids, torch.randn(len(ids), num_groups * width, dtype=torch.float64))


def similarity(query: Tensor, key: Tensor, metric: str) -> Tensor:
    if metric == "dot":
        return (query * key).sum()
    if metric == "euclidean":
        return -((query - key) ** 2).sum()
    return functional.cosine_similarity(query, key, dim=0)


def similarities(case: Case, query: Tensor, key: Tensor) -> Tensor:
    """Return [B, D, K], a pair of vectors at a time."""
    layer = case.layer
    return torch.stack([
        torch.stack([
            torch.stack([similarity(row[j], choice, layer.metric) for choice in key[j % len(key)]])
            for j in range(layer.num_groups)
        ]) for row in case.groups(query)
    ])  # fmt: skip


def standardised(case: Case, scores: Tensor) -> Tensor:
    """Standardise by mean and variance of the batch: per choice over groups too, or per group and choice."""
    places = 0 if case.layer.distance_norm == "per_group" else (0, 1)
    mean = scores.mean(places, keepdim=True)
    return (scores - mean) / ((scores - mean) ** 2).mean(places, keepdim=True).add(EPS).sqrt()


def clear(scores: Tensor) -> bool:
    """Return whether no code depends on rounding."""
    best = scores.topk(2, -1).values
    return bool((best[..., 0] - best[..., 1]).min() > 1e-9)


@settings(deadline=None, max_examples=60)
@given(cases())
def test_rows_and_gradients_match_equations(case):
    layer, kept = case.layer, case.ids[case.kept]
    names = [name for name, _ in layer.named_parameters()]
    weights = {name: parameter.detach().clone().requires_grad_() for name, parameter in layer.named_parameters()}
    expected = torch.zeros(len(case.ids), layer.embedding_dim, dtype=torch.float64)
    if len(kept):
        scores = similarities(case, weights["query"][kept], weights.get("key", weights["value"]))
        if layer.distance_norm:
            scores = standardised(case, scores)
        assume(clear(scores))
        temperature = weights["log_temperature"].exp() if layer.learn_temperature else layer.temperature
        soft = (scores / temperature).softmax(-1)  # eq. (4)
        hard = functional.one_hot(scores.argmax(-1), layer.num_codes).double()  # eq. (3)
        value = weights["value"].expand(layer.num_groups, -1, -1)
        relaxed, selected = (torch.einsum("bjk,jks->bjs", *pair) for pair in ((soft, value.detach()), (hard, value)))
        rows = selected + relaxed - relaxed.detach()  # eq. (5)
        expected = expected.index_put((case.kept,), rows.flatten(1))
    got = layer(case.ids)
    torch.testing.assert_close(got, expected, rtol=1e-9, atol=1e-11)
    wanted = torch.autograd.grad((expected * case.gradient).sum() + 0 * sum(w.sum() for w in weights.values()),
                                 [weights[name] for name in names])  # fmt: skip
    (got * case.gradient).sum().backward()
    for name, gradient in zip(names, wanted, strict=True):
        torch.testing.assert_close(getattr(layer, name).grad, gradient, rtol=1e-7, atol=1e-8, msg=name)


@settings(deadline=None, max_examples=40)
@given(cases(), st.sampled_from([torch.float32, torch.float16]))
def test_eval_rows_match_values_nearest_by_running_statistics(case, dtype):
    """Eq. (1) and (2) hold; frozen, packed and captured rows are the same bits."""
    layer = case.layer.to(dtype)
    for _ in range(2):
        layer(case.ids)
    layer.eval()
    ids = torch.arange(layer.num_embeddings)
    rows = layer(ids).detach()
    with torch.no_grad():
        scores = similarities(case, layer.query.double(), layer._keys().double())
        if layer.distance_norm:
            mean, variance = layer.running_mean.double(), layer.running_var.double()
            scores = (scores - mean) / (variance + EPS).sqrt()  # [B, D, K] by [K] or [D, K]
        value = layer.value.expand(layer.num_groups, -1, -1)
        nearest = torch.stack([value[j, scores[:, j].argmax(-1)] for j in range(layer.num_groups)], 1).flatten(1)
        sure = (scores.topk(2, -1).values.diff(dim=-1).abs() > 1e-5).flatten(1).all(-1) & (ids != layer.padding_idx)
    assert torch.equal(rows[sure], nearest[sure])
    operators, table = layer._table()
    assert torch.equal(operators.rows(ids, *table), rows)
    assert layer.to_packed().rows(ids.numpy()).tobytes() == rows.numpy().tobytes()
    assert torch.equal(layer.freeze()(ids), rows)


@pytest.mark.parametrize("metric", ["dot", "euclidean", "cosine"])
@pytest.mark.parametrize("options", [{}, {"tie_key_value": True}, {"key_dim": 6}], ids=["untied", "tied", "key_dim"])
@pytest.mark.parametrize("norm", [True, False, "per_group"])
def test_frozen_rows_match_equations_in_every_combination(make_layer, share, metric, options, norm):
    """The table is large enough for near ties."""
    layer = make_layer(3000, 12, 16, 3, metric=metric, distance_norm=norm, share_subspaces=share, padding_idx=5,
                       **options).eval()  # fmt: skip
    ids = torch.randint(0, 3000, (7, 300))
    rows = layer(ids).detach()
    one_by_one = torch.stack([layer(row) for row in ids[0, :50]])
    packed = layer.to_packed()
    assert packed.values.shape == (1 if share else 3, 16, 4)
    assert torch.equal(one_by_one, rows[0, :50])
    assert packed.rows(ids.numpy()).tobytes() == rows.numpy().tobytes()
    assert torch.equal(layer.freeze()(ids), rows)
    assert set(layer.state_dict()) == {"codes", "value"}
    assert len(rows.flatten(0, 1).unique(dim=0)) > 100


def test_vectors_without_direction_get_no_gradient():
    """A cosine with zero is 0, and its gradient is finite, in half precision too."""
    for dtype in (torch.float32, torch.float16):
        layer = DPQEmbedding(4, 6, 3, 2, metric="cosine", distance_norm=False, init_scale=1.0, dtype=dtype)
        with torch.no_grad():
            layer.query[1] = 0
            layer.key[0, 2] = 0
        layer(torch.arange(4)).float().square().sum().backward()
        assert not layer.query.grad[1].any()
        assert not layer.key.grad[0, 2].any()
        assert layer.query.grad[0].any()
        assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
        assert layer.eval().to_packed().codes_of(1).tolist() == [0, 0]  # all equal: the lowest


def test_temperature_near_zero_stays_finite_in_half_precision():
    layer = DPQEmbedding(4, 6, 3, 2, temperature=1e-4, distance_norm=False, init_scale=20.0, dtype=torch.float16)
    layer(torch.arange(4)).float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())
