"""Centroids as moving averages: formulas, output layers, files, half precision and two processes."""

import copy
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.layers.dpq import DPQEmbedding
from edge_embed.program.archive import Archive
from edge_embed.program.module_file import load_module

from .two_processes import run_in_two_processes


def table(num_embeddings: int = 20, embedding_dim: int = 12, num_codes: int = 5, num_groups: int = 3,
          ema_decay: float = 0.9, init_scale: float = 1.0, **options: object) -> DPQEmbedding:  # fmt: skip
    return DPQEmbedding(num_embeddings, embedding_dim, num_codes, num_groups, "vq", ema_decay=ema_decay,
                        init_scale=init_scale, **options)  # fmt: skip


class Reference:
    """Appendix A.1 of the VQ-VAE paper, a query at a time; each average begins with one query, the centroid itself."""

    def __init__(self, layer: DPQEmbedding) -> None:
        self.layer, self.decay = layer, layer.centroids.decay
        self.value = layer.value.double().clone()
        self.counts, self.sums = torch.ones_like(self.value[..., 0]), self.value.clone()

    def step(self, ids: Tensor) -> None:
        counts, sums = torch.zeros_like(self.counts), torch.zeros_like(self.sums)
        kept = [i for i in ids.reshape(-1).tolist() if i != self.layer.padding_idx]
        for i in kept:
            for j, query in enumerate(self.layer.query[i].detach().double().split(self.value.shape[2])):
                group = j % len(self.value)
                nearest = (self.value[group] - query).square().sum(-1).argmin()
                counts[group, nearest] += 1
                sums[group, nearest] += query
        if kept:
            self.counts = self.decay * self.counts + (1 - self.decay) * counts
            self.sums = self.decay * self.sums + (1 - self.decay) * sums
        total = self.counts.sum(-1, keepdim=True)
        smoothed = (self.counts + 1e-5) / (total + self.counts.shape[1] * 1e-5) * total
        self.value = self.sums / smoothed.unsqueeze(-1)


def moved(layer: DPQEmbedding) -> Tensor:
    """Return the centroids of all steps so far, which the layer adopts when its next step begins."""
    layer = copy.deepcopy(layer).train()
    layer(torch.zeros(0, dtype=torch.int64))
    return layer.value


@settings(deadline=None, max_examples=30)
@given(st.data())
def test_centroids_match_moving_average_formulas(data):
    torch.manual_seed(data.draw(st.integers(0, 2**31)))
    rows, groups, width = data.draw(st.integers(1, 6)), data.draw(st.integers(1, 3)), data.draw(st.integers(1, 3))
    layer = table(
        rows, groups * width, data.draw(st.integers(2, 4)), groups, data.draw(st.sampled_from([0.0, 0.5, 0.99])),
        share_subspaces=data.draw(st.booleans()), padding_idx=data.draw(st.none() | st.integers(0, rows - 1)),
        distance_norm=False, dtype=torch.float64,
    )  # fmt: skip
    reference = Reference(layer)
    for _ in range(4):
        ids = torch.tensor(data.draw(st.lists(st.integers(0, rows - 1), max_size=6)), dtype=torch.int64)
        layer(ids)
        reference.step(ids)
        torch.testing.assert_close(moved(layer), reference.value, rtol=1e-9, atol=1e-12)


def test_centroids_are_no_parameter_and_queries_keep_their_gradient():
    """Only eq. (7) remains: L_reg has no gradient, and DistributedDataParallel finds no unused parameter."""
    layer = table(padding_idx=2)
    assert [name for name, _ in layer.named_parameters()] == ["query"]
    assert set(layer.state_dict()) == {
        "query", "value", "running_mean", "running_var", "centroids.count", "centroids.sum"
    }  # fmt: skip
    ids, gradient = torch.tensor([4, 2, 7, 4]), torch.randn(4, 12)
    before = layer.value.clone()
    layer(ids).backward(gradient)
    expected = torch.zeros(20, 12).index_add(0, ids, gradient)
    expected[2] = 0
    torch.testing.assert_close(layer.query.grad, expected)
    assert torch.equal(layer.value, before)  # until the next step begins
    layer(ids)
    assert not torch.equal(layer.value, before)


def test_centroids_become_means_of_their_queries(share):
    layer = table(40, 4, 4, 2, distance_norm=False, share_subspaces=share)
    for _ in range(400):
        layer(torch.arange(40))
    layer.eval()
    queries, codes = layer.query.detach().unflatten(1, (2, 2)), layer.to_packed().codes_of(range(40))
    for j in range(len(layer.value)):
        for k in range(4):
            chose = torch.from_numpy(codes == k)
            mine = queries[chose] if share else queries[:, j][chose[:, j]]
            if len(mine):
                torch.testing.assert_close(layer.value[j, k], mine.mean(0), rtol=1e-3, atol=1e-3)


def test_rows_computed_again_leave_averages_unchanged():
    layer = table()
    layer(torch.arange(9))
    before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
    layer.training_rows(layer.query, torch.ones(20, dtype=torch.int64), update=False)
    layer.eval()(torch.arange(20))
    assert all(torch.equal(before[name], tensor) for name, tensor in layer.state_dict().items())


def test_output_layer_counts_as_one_step_of_all_rows(blocks):
    """The number of blocks does not matter; the backward pass uses the centroids of the forward pass."""
    layer = table(padding_idx=3, distance_norm=False, dtype=torch.float64)
    whole = copy.deepcopy(layer)
    for _ in range(2):
        hidden, gradient = torch.randn(6, 12, dtype=torch.float64), torch.randn(6, 20, dtype=torch.float64)
        mine, theirs = hidden.clone().requires_grad_(), hidden.clone().requires_grad_()
        layer.zero_grad()
        whole.zero_grad()
        layer.logits(mine).backward(gradient)
        (theirs @ whole(torch.arange(20)).t()).backward(gradient)
        torch.testing.assert_close(mine.grad, theirs.grad)
        torch.testing.assert_close(layer.query.grad, whole.query.grad)
        torch.testing.assert_close(layer.state_dict(), whole.state_dict())


def test_output_layer_that_fails_leaves_no_step_open():
    layer = table()
    with pytest.raises(RuntimeError):
        layer.training_logits(torch.randn(2, 13))
    before = layer.centroids.count.clone()
    layer(torch.arange(5))
    assert not torch.equal(layer.centroids.count, before)


@pytest.mark.parametrize("narrow", [torch.float16, torch.bfloat16], ids=str)
def test_averages_stay_wide_in_half_precision(narrow):
    """Rounding would lose a thousandth of a step."""
    made, turned = table(dtype=narrow), table().to(narrow)
    turned.load_state_dict(made.state_dict())
    for layer in (made, turned):
        assert layer.centroids.count.dtype == layer.centroids.sum.dtype == torch.float32
        assert layer(torch.arange(20)).dtype == layer.value.dtype == narrow
        assert moved(layer).isfinite().all()
    assert torch.equal(made.centroids.sum, turned.centroids.sum)
    assert table().double().centroids.sum.dtype == torch.float64


def test_half_precision_conversion_keeps_averages():
    layer = table()
    layer(torch.arange(20))
    before = layer.centroids.sum.clone()
    assert torch.equal(layer.half().centroids.sum, before)


def test_autocast_averages_float32_queries():
    layer = table(distance_norm=False)
    with torch.autocast("cpu", torch.bfloat16):
        layer(torch.arange(20)).float().sum().backward()
    codes_total = layer.centroids.count.sum(-1)
    torch.testing.assert_close(codes_total, torch.full((3,), 0.9 * 5 + 0.1 * 20))
    sums = layer.query.detach().sum(0).view(3, 4)  # every query is in one of the sums
    expected = 0.9 * layer.value.sum(1) + 0.1 * sums
    torch.testing.assert_close(layer.centroids.sum.sum(1), expected)


def test_freeze_drops_averages_and_keeps_rows(share):
    layer = table(share_subspaces=share, padding_idx=1)
    for _ in range(3):
        layer(torch.randint(0, 20, (30,)))
    rows = layer.eval()(torch.arange(20))
    assert layer.to_packed().rows(range(20)).tobytes() == rows.detach().numpy().tobytes()
    assert torch.equal(layer.freeze()(torch.arange(20)), rows)
    assert set(layer.state_dict()) == {"codes", "value"}
    again = table(share_subspaces=share, padding_idx=1)
    again.load_state_dict(layer.state_dict())
    assert torch.equal(again(torch.arange(20)), rows)


def test_reset_parameters_restarts_averages():
    layer = table()
    layer(torch.arange(20))
    layer.reset_parameters()
    assert torch.equal(layer.centroids.count, torch.ones(3, 5))
    assert torch.equal(layer.centroids.sum, layer.value)


def test_module_file_is_read_without_running_code(tmp_path: Path):
    layer = nn.Sequential(table())
    layer(torch.arange(20))
    torch.save(layer, tmp_path / "model.pt")
    loaded = load_module(Archive(tmp_path / "model.pt"))
    torch.testing.assert_close(loaded.state_dict(), layer.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variant": "sx", "ema_decay": 0.9}, 'ema_decay: got 0.9 with variant "sx".* use variant="vq"'),
        ({"variant": "vq", "ema_decay": 1.0}, "ema_decay must be at least 0 and below 1, got 1.0"),
        ({"variant": "vq", "ema_decay": float("nan")}, "ema_decay must be at least 0 and below 1, got nan"),
    ],
)
def test_decays_that_average_nothing_are_refused(options, message):
    with pytest.raises(BadInputError, match=message):
        DPQEmbedding(20, 12, 5, 3, **options)


@pytest.mark.slow
def test_compiled_steps_match_plain_layer():
    torch._dynamo.reset()
    layer = table(padding_idx=2)
    plain = copy.deepcopy(layer)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    for size in (4, 7, 7):
        ids = torch.randint(0, 20, (2, size))
        rows, expected = compiled(ids), plain(ids)
        torch.testing.assert_close(rows, expected)
        rows.square().sum().backward()
        expected.square().sum().backward()
    torch.testing.assert_close(layer.query.grad, plain.query.grad)
    torch.testing.assert_close(layer.state_dict(), plain.state_dict())


_LINES = """
layer = edge_embed.DPQEmbedding(20, 12, 5, 3, "vq", padding_idx=0, ema_decay=0.9, init_scale=1.0,
                                distance_norm=False, dtype=torch.float64)
model = DistributedDataParallel(layer)
start = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
optimizer = torch.optim.SGD(model.parameters(), 0.1)
torch.manual_seed(7)
for step in range(5):
    ids = torch.randint(0, 20, (2, 3, 4))  # of both processes
    ids[0, step % 2] = 0
    optimizer.zero_grad()
    model(ids[rank]).square().mean().backward()
    optimizer.step()
codes = torch.from_numpy(layer.float().to_packed().codes)
result = {"start": start, "state": layer.double().state_dict(), "codes": codes}
"""


def test_processes_average_queries_of_both_batches(tmp_path: Path):
    first, second = run_in_two_processes(_LINES, tmp_path)
    for part in ("state", "codes"):
        torch.testing.assert_close(first[part], second[part], rtol=0, atol=0)

    alone = table(padding_idx=0, distance_norm=False, dtype=torch.float64)
    alone.load_state_dict(first["start"])
    optimizer = torch.optim.SGD(alone.parameters(), 0.1)
    torch.manual_seed(7)
    for step in range(5):
        ids = torch.randint(0, 20, (2, 3, 4))
        ids[0, step % 2] = 0
        optimizer.zero_grad()
        alone(ids).square().mean().backward()
        optimizer.step()
    got = first["state"]
    assert (got["centroids.count"] - 1).abs().max() > 0.5  # they did move
    torch.testing.assert_close(alone.float().double().state_dict(), got, rtol=1e-6, atol=1e-7)
    assert torch.equal(torch.from_numpy(alone.float().to_packed().codes), first["codes"])


def test_passes_may_precede_their_gradients():
    layer = table()
    rows = [layer(torch.arange(9)) for _ in range(2)]
    sum(each.sum() for each in rows).backward()
    torch.testing.assert_close(layer.query.grad[:9], torch.full_like(layer.query[:9], 2))
