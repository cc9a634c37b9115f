"""Training: batch statistics, learning, torch.compile, half precision."""

import copy

import pytest
import torch
from torch import nn

from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.ops import dpq_distance

from ..pairwise import pairwise


def test_statistics_match_batch_norm_over_batch_and_groups(variant, share):
    """Each choice k has one mean and variance, as nn.BatchNorm1d has over [ids * D, K] without affine."""
    layer = DPQEmbedding(20, 12, 5, 3, variant, share, padding_idx=7, init_scale=1.0, dtype=torch.float64)
    norm = nn.BatchNorm1d(5, affine=False, dtype=torch.float64)
    for _ in range(3):
        ids = torch.randint(0, 20, (4, 6))
        ids[0, :2] = 7
        layer(ids)
        query = layer.query[ids[ids != 7]].detach()
        distances = dpq_distance.responses(query, dpq_distance.affine(layer._keys(), layer.metric), layer.metric)
        norm(distances.reshape(-1, 5))
    torch.testing.assert_close(layer.running_mean, norm.running_mean, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(layer.running_var, norm.running_var, rtol=1e-10, atol=1e-12)


def test_eval_mode_changes_no_statistics():
    layer = DPQEmbedding(20, 12, 5, 3).eval()
    layer(torch.arange(20))
    assert torch.equal(layer.running_mean, torch.zeros(5))
    assert torch.equal(layer.running_var, torch.ones(5))


def test_batch_of_one_id_gives_finite_statistics():
    layer = DPQEmbedding(20, 12, 5, 1)
    layer(torch.tensor(3)).sum().backward()
    assert layer.running_var.isfinite().all()
    assert layer.query.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_statistics_of_large_batches_are_finite(variant, dtype):
    """float16 turns a count of 65,536 distances per choice and more into infinity."""
    layer = DPQEmbedding(500, 64, 4, 64, variant, dtype=dtype)
    layer(torch.randint(0, 500, (2048,))).float().sum().backward()
    for name, tensor in layer.state_dict().items():
        assert tensor.isfinite().all(), name
    for name, parameter in layer.named_parameters():
        assert parameter.grad.isfinite().all(), name
    torch.testing.assert_close(layer.running_var.float(), torch.full((4,), 0.9), rtol=0.01, atol=0.01)


def test_autocast_training_is_finite(variant):
    layer = DPQEmbedding(20, 12, 5, 3, variant)
    with torch.autocast("cpu", torch.bfloat16):
        rows = layer(torch.arange(20))
    rows.float().sum().backward()
    assert all(parameter.grad.isfinite().all() for parameter in layer.parameters())


@pytest.mark.parametrize("norm", [True, False])
def test_layer_learns_small_task(variant, share, norm):
    """20 words, 4 classes by id: a linear layer over codes of 16 combinations can separate them."""
    layer = DPQEmbedding(20, 12, 4, 2, variant, share, distance_norm=norm)
    linear = nn.Linear(12, 4)
    ids = torch.arange(20)
    labels = ids % 4
    optimizer = torch.optim.Adam([*layer.parameters(), *linear.parameters()], 0.03)

    def loss() -> torch.Tensor:
        return nn.functional.cross_entropy(linear(layer(ids)), labels)

    layer.eval()
    first = loss().item()
    layer.train()
    for _ in range(150):
        optimizer.zero_grad()
        (loss() + layer.regularization_loss()).backward()
        optimizer.step()
    layer.eval()
    assert loss().item() < 0.25 * first  # in eval mode: the exported codes have learned
    frozen = loss().item()
    layer.freeze()
    assert loss().item() == frozen


def test_centroids_move_to_their_members():
    """The regularisation loss alone moves a centroid to the mean of the queries that chose it."""
    layer = DPQEmbedding(40, 2, 4, 1, "vq", distance_norm=False, init_scale=1.0)
    optimizer = torch.optim.SGD([layer.value], 4.0)
    for _ in range(300):
        optimizer.zero_grad()
        layer(torch.arange(40))
        layer.regularization_loss().backward()
        optimizer.step()
    code = dpq_distance.codes(layer.query, layer.value, None, None, "euclidean")[:, 0]
    for chosen in code.unique():
        torch.testing.assert_close(layer.value[0, chosen], layer.query[code == chosen].mean(0), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("variant", "state", "training"), pairwise(["sx", "vq"], ["trainable", "frozen"], [True, False])
)
def test_layer_compiles_as_one_graph(variant, training, state):
    torch._dynamo.reset()
    layer = DPQEmbedding(20, 12, 5, 3, variant, padding_idx=2).train(training)
    if state == "frozen":
        layer.freeze()
    plain = copy.deepcopy(layer)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    weight = torch.randn(12)
    for size in (4, 7):
        ids = torch.randint(0, 20, (2, size))
        rows, expected = compiled(ids), plain(ids)
        torch.testing.assert_close(rows, expected)
        if rows.requires_grad:
            (rows * weight).sum().backward()
            (expected * weight).sum().backward()
    for got, wanted in zip(layer.parameters(), plain.parameters(), strict=True):
        assert (got.grad is None) == (wanted.grad is None)
        if wanted.grad is not None:
            torch.testing.assert_close(got.grad, wanted.grad)
    for got, wanted in zip(layer.buffers(), plain.buffers(), strict=True):
        torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("state", ["trainable", "frozen"])
def test_layer_compiles_with_data_dependent_number_of_ids(state):
    torch._dynamo.reset()
    layer = DPQEmbedding(20, 12, 5, 3, padding_idx=2).eval()
    if state == "frozen":
        layer.freeze()
    compiled = torch.compile(lambda ids: layer(ids[ids > 3]), fullgraph=True, backend="aot_eager")
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        for size in (10, 100):
            ids = torch.randint(0, 20, (size,))
            assert torch.equal(compiled(ids), layer(ids[ids > 3]))


@pytest.mark.parametrize("metric", ["dot", "euclidean", "cosine"])
def test_table_without_norm_has_same_rows_in_lookups_output_layer_and_eval_mode(metric):
    """Rows of a tied table with a norm depend on the other ids of the batch: on WikiText-2, 60 % of the codes."""
    ids, hidden = torch.arange(40), torch.eye(12)
    options = {"metric": metric, "init_scale": 1.0}
    layer = DPQEmbedding(40, 12, 16, 4, distance_norm=False, **options)
    with torch.no_grad():
        looked_up, scored = layer(torch.tensor([3, 3, 3, 17])), layer.logits(hidden).t()
        assert torch.equal(looked_up, layer.eval()(torch.tensor([3, 3, 3, 17])))
        assert torch.equal(scored, layer(ids))
        normed = DPQEmbedding(40, 12, 16, 4, **options)
        few, all_rows = normed(torch.tensor([3, 3, 3, 17]))[[0, 3]], normed(ids)[[3, 17]]
    assert not torch.equal(few, all_rows)
