"""The centroid loss of DPQ-VQ: its formula, and its scaling with the model's loss."""

import copy
import io
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import edge_embed
from edge_embed.errors import BadInputError
from edge_embed.layers.regularization import regularization_loss
from edge_embed.ops import logits as logits_module

from .two_processes import run_in_two_processes

N, D, GROUPS, CODES = 50, 12, 3, 5
IDS = torch.tensor([[4, 4, 7], [0, 9, 30]])  # 0 is padding


def make(**options: object) -> edge_embed.DPQEmbedding:
    settings = {"variant": "vq", "padding_idx": 0, "init_scale": 1.0, "distance_norm": False} | options
    torch.manual_seed(0)
    return edge_embed.DPQEmbedding(N, D, CODES, GROUPS, **settings)


def written_out(layer: edge_embed.DPQEmbedding, ids: Tensor, commitment: float, reduction: str) -> Tensor:
    """Compute the formulas by differentiable loops over every sub-vector."""
    value = layer.value.expand(GROUPS, -1, -1)
    reg, commit, count = torch.zeros(()).to(value), torch.zeros(()).to(value), 0
    for row in ids.flatten().tolist():
        for group, query in enumerate(layer.query[row].unflatten(0, (GROUPS, -1)) if row else ()):
            nearest = value[group, (value[group] - query).square().sum(-1).argmin()]
            reg = reg + (nearest - query.detach()).square().sum()
            commit = commit + (nearest.detach() - query).square().sum()
            count += len(query)
    return (reg + commitment * commit) / (count if reduction == "mean" else 1)


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("commitment", [0.0, 0.25])
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_loss_of_lookups_matches_formula(reduction, commitment, shared, dtype):
    layer = make(share_subspaces=shared, dtype=dtype)
    layer(IDS)
    loss = layer.regularization_loss(3.0, commitment, reduction)
    wanted = 3 * written_out(layer, IDS, commitment, reduction)
    torch.testing.assert_close(loss, wanted)
    names = ["value", *(["query"] if commitment else [])]
    parameters = [layer.get_parameter(name) for name in names]
    for got, expected in zip(
        torch.autograd.grad(loss, parameters), torch.autograd.grad(wanted, parameters), strict=True
    ):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("blocks", [1, 4])
@pytest.mark.parametrize("commitment", [0.0, 0.25])
def test_loss_of_output_layer_is_that_of_all_rows(blocks, commitment, monkeypatch):
    if blocks > 1:
        monkeypatch.setattr(logits_module, "_BLOCK_ELEMENTS", N // blocks * D)
    layer = make()
    edge_embed.TiedOutput(layer)(torch.randn(2, D))
    loss = layer.regularization_loss(commitment=commitment)
    wanted = written_out(layer, torch.arange(N), commitment, "mean")
    torch.testing.assert_close(loss, wanted)
    parameters = [layer.value, *([layer.query] if commitment else [])]
    for got, expected in zip(
        torch.autograd.grad(loss, parameters), torch.autograd.grad(wanted, parameters), strict=True
    ):
        torch.testing.assert_close(got, expected)


def test_loss_sums_uses_of_a_step_and_is_taken_once():
    layer = make()
    edge_embed.TiedOutput(layer)(layer(IDS).detach())
    layer(IDS + 1)
    parts = [written_out(layer, ids, 0, "mean") for ids in (IDS, torch.arange(N), IDS + 1)]
    torch.testing.assert_close(layer.regularization_loss(), sum(parts))
    with pytest.warns(UserWarning, match="no training pass was recorded since the last call"):
        assert layer.regularization_loss() == 0


def gradients(model: nn.Module, scale: float = 1.0) -> list[Tensor]:
    """Return the gradients of a loss with its regularisation, multiplied by ``scale``."""
    model.zero_grad()
    loss = model(IDS).square().mean() + regularization_loss(model)
    (scale * loss).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def test_gradients_follow_scale_of_loss():
    model = nn.Sequential(make(), nn.Linear(D, 2))
    for got, wanted in zip(gradients(model, 1024.0), gradients(model), strict=True):
        torch.testing.assert_close(got / 1024, wanted)


def test_step_with_grad_scaler_equals_step_without():
    """``torch.amp.GradScaler`` divides every gradient by the factor of the loss."""
    scaled = nn.Sequential(make(), nn.Linear(D, 2))
    plain = copy.deepcopy(scaled)
    start = scaled[0].value.detach().clone()
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16)
    optimizers = [torch.optim.SGD(model.parameters(), 0.5) for model in (scaled, plain)]
    for _ in range(5):
        for model, optimizer in zip((scaled, plain), optimizers, strict=True):
            optimizer.zero_grad()
            loss = model(IDS).square().mean() + regularization_loss(model)
            if model is plain:
                loss.backward()
                optimizer.step()
            else:
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
    torch.testing.assert_close(scaled.state_dict(), plain.state_dict())
    assert (scaled[0].value - start).abs().max() > 0.1


def test_accumulated_gradients_are_mean_of_parts():
    model = nn.Sequential(make(), nn.Linear(D, 2))
    alone = []
    for ids in (IDS, IDS + 11):
        model.zero_grad()
        (model(ids).square().mean() + regularization_loss(model)).backward()
        alone.append([parameter.grad.clone() for parameter in model.parameters()])
    model.zero_grad()
    for ids in (IDS, IDS + 11):
        ((model(ids).square().mean() + regularization_loss(model)) / 2).backward()
    for parameter, *parts in zip(model.parameters(), *alone, strict=True):
        torch.testing.assert_close(parameter.grad, sum(parts) / 2)


_LINES = """
layer = edge_embed.DPQEmbedding(20, 12, 5, 3, "vq", padding_idx=0, init_scale=1.0, distance_norm=False)
torch.manual_seed(7)
ids = torch.randint(0, 20, (2, 3, 4))  # of both processes
model = DistributedDataParallel(layer, find_unused_parameters={unused})
loss = model(ids[rank]).square().mean() + regularization_loss(layer)
loss.backward()
alone = []
for part in ids:
    layer.query.grad, kept = None, layer.query.grad
    (value,) = torch.autograd.grad((layer(part), layer.regularization_loss())[1], layer.value)
    layer.query.grad = kept
    alone.append(value)
result = {{"value": layer.value.grad, "mean": sum(alone) / 2}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("unused", [False, True])
def test_processes_have_mean_of_their_gradients(unused: bool, tmp_path: Path) -> None:
    for result in run_in_two_processes(_LINES.format(unused=unused), tmp_path):
        assert result["value"].any()
        torch.testing.assert_close(result["value"], result["mean"])


def test_step_without_loss_warns_at_next_take():
    layer = make()
    optimizer = torch.optim.Adam(layer.parameters())
    layer(IDS).sum().backward()
    optimizer.step()
    with pytest.warns(
        UserWarning, match=r"the last step did not use it. Write loss = loss \+ layer\.regularization_loss\(\)"
    ):
        layer(IDS)
    torch.testing.assert_close(layer.regularization_loss(), written_out(layer, IDS, 0, "mean"))  # of the new step only


def test_passes_without_gradient_or_in_eval_mode_do_not_count(recwarn):
    layer = make()
    with torch.no_grad():
        layer(IDS)
        edge_embed.TiedOutput(layer)(torch.randn(2, D))
    layer.eval()(IDS)
    assert layer.regularization_loss() == 0
    assert not recwarn.list


def test_copies_and_files_hold_no_passes():
    layer = make()
    layer(IDS)
    buffer = io.BytesIO()
    torch.save(layer, buffer)
    buffer.seek(0)
    with torch.serialization.safe_globals([edge_embed.DPQEmbedding]):
        loaded = torch.load(buffer, weights_only=True)
    for other in (copy.deepcopy(layer), loaded):
        with pytest.warns(UserWarning, match="no training pass"):
            assert other.regularization_loss() == 0
    assert layer.regularization_loss() > 0


def test_moving_averages_give_commitment_loss_only():
    layer = make(ema_decay=0.9)
    layer(IDS)
    loss = layer.regularization_loss(commitment=0.25)
    loss.backward()
    layer.query.grad, got = None, layer.query.grad
    written_out(layer, IDS, 0.25, "mean").backward()
    torch.testing.assert_close(got, layer.query.grad)
    for _ in range(3):  # without it nothing is missing, and no warning follows
        layer(IDS).sum().backward()
        with torch.no_grad():
            layer.query.mul_(0.9)


def test_layers_of_other_methods_have_no_loss():
    model = nn.ModuleList([edge_embed.DPQEmbedding(N, D, CODES, GROUPS), edge_embed.ANTEmbedding(N, D, 4)])
    for layer in model:
        layer(IDS)
    assert regularization_loss(model) == 0
    assert regularization_loss(nn.Linear(2, 2)) == 0
    assert make().freeze().regularization_loss() == 0


def test_loss_of_model_sums_its_layers():
    model = nn.ModuleDict({"one": make(), "other": make(init_scale=0.3)})
    for layer in model.values():
        layer(IDS)
    wanted = sum(written_out(layer, IDS, 0.25, "sum") for layer in model.values())
    torch.testing.assert_close(regularization_loss(model, 2.0, 0.25, "sum"), 2 * wanted)


def test_loss_of_compiled_training_matches_formula(recwarn):
    torch._dynamo.reset()
    layer = make()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    ids = torch.tensor([3, 5, 9])
    for _ in range(3):
        compiled(ids)
        torch.testing.assert_close(layer.regularization_loss(), written_out(layer, ids, 0, "mean"))


class Language(nn.Module):
    """A table at both ends of a model whose parts are compiled."""

    def __init__(self, **options: object) -> None:
        super().__init__()
        self.words = make(**options)
        self.head = edge_embed.TiedOutput(self.words)

    def forward(self, ids: Tensor) -> Tensor:
        return self.head(self.words(ids))


def losses_of_steps(model: nn.Module, commitment: float = 0.0, takes_loss: bool = True) -> list[float]:
    """Return the centroid loss of each of three steps with two passes each."""
    optimizer, losses = torch.optim.SGD(model.parameters(), 0.1), []
    for step in range(3):
        optimizer.zero_grad()
        loss = model(IDS + step).square().mean() + model(IDS + 2 * step).mean()
        if takes_loss:
            losses.append(regularization_loss(model, commitment=commitment))
        (loss + sum(losses[-1:])).backward()
        optimizer.step()
    return [loss.item() for loss in losses]


@pytest.mark.parametrize("parts", [("words",), ("head",), ("words", "head")])
@pytest.mark.slow
def test_compiled_parts_have_losses_of_eager_steps(parts):
    torch._dynamo.reset()
    wanted = losses_of_steps(Language())
    model = Language()
    for part in parts:
        getattr(model, part).compile(backend="eager")
    assert losses_of_steps(model) == pytest.approx(wanted)


@pytest.mark.parametrize("part", ["words", "head"])
def test_step_without_loss_warns_where_part_is_compiled(part):
    torch._dynamo.reset()
    model = Language()
    getattr(model, part).compile(backend="eager")
    with pytest.warns(UserWarning, match="the last step did not use it"):
        losses_of_steps(model, takes_loss=False)
    assert len(model.words._passes) <= 8  # no more than two steps


def test_compiled_moving_averages_give_commitment_loss_from_second_step(recwarn):
    torch._dynamo.reset()
    model = Language(ema_decay=0.9)
    model.compile(backend="eager")
    first, *later = losses_of_steps(model, 0.25)
    assert first == 0
    assert later == pytest.approx(losses_of_steps(Language(ema_decay=0.9), 0.25)[1:], rel=0.02)  # centroids agree
    assert not recwarn.list


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": -1}, "weight must be a finite number of at least 0, got -1"),
        ({"commitment": float("nan")}, "commitment must be a finite number of at least 0, got nan"),
        ({"reduction": "none"}, 'reduction must be "mean" or "sum", got \'none\''),
    ],
)
def test_impossible_options_are_refused(options, message):
    layer = make()
    for take in (layer.regularization_loss, lambda **given: regularization_loss(layer, **given)):
        with pytest.raises(BadInputError, match=message):
            take(**options)


@pytest.mark.parametrize("commitment", [0.0, 0.25])
@pytest.mark.parametrize("use", ["lookup", "output layer"])
def test_functional_call_gives_gradients_to_its_parameters(use, commitment):
    layer = make()
    model = layer if use == "lookup" else edge_embed.TiedOutput(layer)
    inputs = IDS if use == "lookup" else torch.zeros(2, D)
    prefix = "" if use == "lookup" else "embedding."
    given = {name: torch.randn_like(weight).requires_grad_() for name, weight in layer.named_parameters()}
    torch.func.functional_call(model, {prefix + name: weight for name, weight in given.items()}, (inputs,))
    layer.regularization_loss(commitment=commitment).backward()

    other = make()
    other.load_state_dict(given, strict=False)
    (other if use == "lookup" else edge_embed.TiedOutput(other))(inputs)
    other.regularization_loss(commitment=commitment).backward()
    assert layer.value.grad is None
    torch.testing.assert_close(given["value"].grad, other.value.grad)
    assert (given["query"].grad is None) == (commitment == 0)


def test_torch_func_passes_leave_nothing_behind():
    layer = make()
    given = {name: weight.detach() for name, weight in layer.named_parameters()}
    torch.func.grad(lambda weights: torch.func.functional_call(layer, weights, (IDS,)).sum())(given)
    with pytest.warns(UserWarning, match=r"no training pass .* transforms of torch.func"):
        assert layer.regularization_loss() == 0


def test_compiled_moving_averages_keep_no_passes():
    layer = make(ema_decay=0.9)
    compiled = torch.compile(layer, backend="eager")
    for _ in range(3):
        compiled(IDS)
    assert layer._passes == ()  # their loss is never taken: they would stay forever
