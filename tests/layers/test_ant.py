"""ANTEmbedding: initialisation, weight types of frozen tables, and training to a sparse table."""

import math

import numpy as np
import pytest
import torch
from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.proximal import ProximalOptimizer

IDS = torch.arange(20)


def test_initial_anchors_are_normal_and_transform_half_normal():
    layer = ANTEmbedding(5000, 40, 400, padding_idx=7)
    for weight in (layer.transform, layer.anchors):
        assert weight.square().mean().item() == pytest.approx(2 / len(weight), rel=0.1)
        expected = math.sqrt(2 / math.pi) * math.sqrt(2 / len(weight))
        assert weight.abs().mean().item() == pytest.approx(expected, rel=0.05)
    assert (layer.transform >= 0).all()
    assert abs(layer.anchors.mean().item()) < 5 * math.sqrt(2 / 400 / layer.anchors.numel())  # of either sign
    assert not layer.transform[7].any()


@pytest.mark.parametrize("sizes", [(0, 4, 2), (4, 0, 2), (4, 4, 0), (4, 4, 2.5)])
def test_impossible_sizes_are_refused_with_numbers(sizes):
    with pytest.raises(BadInputError, match=r"must be (at least 1, got 0|an integer, got 2\.5)"):
        ANTEmbedding(*sizes)


def test_rows_and_gradients_match_formula():
    """E = T A; dT[i] = g A^T and dA = sum T[i]^T g over the rows of the batch, in numpy."""
    layer = ANTEmbedding(6, 4, 3, padding_idx=0, dtype=torch.float64)
    transform, anchors = layer.transform.detach().numpy().copy(), layer.anchors.detach().numpy().copy()
    ids = np.array([1, 5, 1, 0, 3])
    gradient = np.random.default_rng(0).standard_normal((5, 4))
    rows = layer(torch.from_numpy(ids))
    rows.backward(torch.from_numpy(gradient))
    expected = np.where((ids != 0)[:, np.newaxis], transform[ids] @ anchors, 0)
    np.testing.assert_allclose(rows.detach().numpy(), expected, rtol=1e-13)
    of_transform, of_anchors = np.zeros_like(transform), np.zeros_like(anchors)
    for row, sent in zip(ids, gradient, strict=True):
        if row != 0:
            of_transform[row] += anchors @ sent
            of_anchors += np.outer(transform[row], sent)
    np.testing.assert_allclose(layer.transform.grad.numpy(), of_transform, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(layer.anchors.grad.numpy(), of_anchors, rtol=1e-12, atol=1e-14)


def test_entry_at_exactly_zero_gets_gradient():
    layer = ANTEmbedding(4, 3, 2)
    with torch.no_grad():
        layer.transform.zero_()
        layer.anchors.abs_()
    (-layer(torch.tensor(1))).sum().backward()
    assert (layer.transform.grad[1] < 0).all()


@pytest.mark.parametrize("num_anchors", [1, 256, 257])
def test_anchor_ids_use_narrowest_type(num_anchors):
    layer = ANTEmbedding(20, 6, num_anchors).freeze()
    assert layer.anchor_ids.dtype == (torch.uint8 if num_anchors <= 256 else torch.uint16)
    assert layer.row_offsets.dtype == torch.int32
    assert layer.to_packed().num_embeddings == 20


@pytest.mark.parametrize(("weight_type", "tolerance"), [("float32", 0), ("float16", 2**-11), ("int8", 0.5 / 127)])
def test_weight_types_round_by_half_a_step(weight_type, tolerance):
    """The step is relative to the weight for float16, to the largest weight for int8."""
    layer = ANTEmbedding(20, 6, 5, padding_idx=2)
    with torch.no_grad():
        layer.transform[3, 1], layer.transform[4, 2] = 0, 1e-9
    exact = layer.transform.detach().clone()
    layer.freeze(weight_type=weight_type)
    assert layer.weights.dtype == getattr(torch, weight_type)
    stored = layer.to_packed()
    dense = np.zeros((20, 5))
    dense[np.repeat(np.arange(20), np.diff(stored.row_offsets)), stored.anchor_ids] = (
        stored.weights.astype(float) * stored.weight_scale
    )
    bound = tolerance * (exact.max() if weight_type == "int8" else exact) + (1e-9 if tolerance else 0)
    assert (np.abs(dense - exact.numpy()) <= 1.0001 * bound.numpy()).all()
    assert (stored.weights != 0).all()
    assert (dense[4, 2] == 0) == (weight_type != "float32")


@pytest.mark.parametrize("weight_type", ["float32", "int8"])
def test_half_of_frozen_table_keeps_weights(weight_type):
    """A second rounding would turn small weights into zero, and shift all int8 weights by the scale."""
    layer = ANTEmbedding(20, 6, 5)
    with torch.no_grad():
        layer.transform.mul_(1e-7)
    layer.freeze(weight_type)
    weights, scale = layer.weights.clone(), layer.weight_scale.clone()
    layer.half()
    assert torch.equal(layer.weights, weights)
    assert torch.equal(layer.weight_scale, scale)
    assert layer.to_packed().shape.value_type == "float16"
    assert layer.double()(IDS).dtype == torch.float64


def test_unknown_weight_types_are_refused():
    with pytest.raises(BadInputError, match="int4"):
        ANTEmbedding(20, 6, 5).freeze(weight_type="int4")
    with pytest.raises(BadInputError, match="int4"):
        ANTEmbedding(20, 6, 5).freeze().freeze(weight_type="int4")


def test_frozen_checkpoint_with_other_nonzeros_loads_into_frozen_layer():
    source, target = ANTEmbedding(20, 6, 5).freeze("int8"), ANTEmbedding(20, 6, 5, padding_idx=0)
    with torch.no_grad():
        target.transform[3:] = 0
    target.freeze().load_state_dict(source.state_dict())
    assert torch.equal(target(IDS)[1:], source(IDS)[1:])


def trained(optimizer_of, penalty: float | None, steps: int = 250) -> tuple[ANTEmbedding, float]:
    """Train 20 words of 4 classes; return layer and eval accuracy without the last 5 words, which never occur."""
    torch.manual_seed(3)
    layer, linear = ANTEmbedding(20, 8, 10), nn.Linear(8, 4)
    optimizer = optimizer_of([*layer.parameters(), *linear.parameters()])
    if penalty is not None:
        optimizer = ProximalOptimizer(optimizer, layer, penalty)
    labels = IDS % 4
    for _ in range(steps):
        ids = torch.randint(0, 15, (8,))
        optimizer.zero_grad()
        nn.functional.cross_entropy(linear(layer(ids)), labels[ids]).backward()
        optimizer.step()
    layer.eval()
    right = linear(layer(IDS[:15])).argmax(-1) == labels[:15]
    return layer, right.float().mean().item()


OPTIMIZERS = {
    "adam": lambda parameters: torch.optim.Adam(parameters, 0.03, eps=1e-3),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, 0.2, eps=1e-3),
    "sgd": lambda parameters: torch.optim.SGD(parameters, 1.0),
}


@pytest.mark.parametrize(("name", "penalty"), [("adam", 1e-3), ("adagrad", 1e-3), ("sgd", 3e-3)])
def test_training_with_proximal_step_makes_table_sparse(name, penalty):
    dense, accuracy = trained(OPTIMIZERS[name], None)
    sparse, accuracy_of_sparse = trained(OPTIMIZERS[name], penalty)
    kept = sparse.to_packed().shape.num_nonzeros
    assert accuracy > 0.9
    assert accuracy_of_sparse > 0.9
    assert kept < 0.6 * dense.to_packed().shape.num_nonzeros
    assert not sparse.transform[15:].any()  # words that never occurred have empty rows
    rows = sparse(IDS).detach()
    torch.testing.assert_close(sparse.freeze()(IDS), rows)
    assert len(sparse.weights) == kept
