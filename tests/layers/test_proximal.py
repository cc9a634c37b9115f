"""The proximal step against formulas by hand, and a wrapped optimiser in place of the bare one."""

import copy
import io
import pickle

import numpy as np
import pytest
import torch
from torch import nn
from torch.optim import lr_scheduler

from edge_embed.errors import BadInputError
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.proximal import ProximalOptimizer
from edge_embed.layers.yogi import Yogi

PENALTY = 0.003
SEEN, UNSEEN = [1, 2, 3], [4, 5]


class Model(nn.Module):
    """A table of 6 words (0 is padding, 4 and 5 never occur) and another trainable layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = ANTEmbedding(6, 4, 3, padding_idx=0, dtype=torch.float64)
        self.head = nn.Linear(4, 1, dtype=torch.float64)

    def loss(self, step: int) -> torch.Tensor:
        ids = torch.tensor([0, *SEEN, 1 + step % 3])
        return (self.head(self.table(ids)) - torch.arange(5.0, dtype=torch.float64).unsqueeze(-1)).square().mean()


def run(model: Model, optimizer: torch.optim.Optimizer, steps: int) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        model.loss(step).backward()
        optimizer.step()


def sgd(history: list[torch.Tensor]) -> torch.Tensor | float:
    return 0.1


def adam(history: list[torch.Tensor], lr: float = 0.1, eps: float = 1e-3) -> torch.Tensor:
    square = torch.zeros_like(history[0])
    for gradient in history:
        square = 0.99 * square + 0.01 * gradient**2
    count = len(history)
    return lr / (1 - 0.9**count) / ((square / (1 - 0.99**count)).sqrt() + eps)


def amsgrad(history: list[torch.Tensor]) -> torch.Tensor:
    square = largest = torch.zeros_like(history[0])
    for gradient in history:
        square = 0.99 * square + 0.01 * gradient**2
        largest = torch.maximum(largest, square)
    count = len(history)
    return 0.1 / (1 - 0.9**count) / ((largest / (1 - 0.99**count)).sqrt() + 1e-3)


def nadam(history: list[torch.Tensor]) -> torch.Tensor:
    return adam(history) * (1 - 0.9 ** len(history))


def radam(history: list[torch.Tensor]) -> torch.Tensor | float:
    count, longest = len(history), 2 / 0.01 - 1
    length = longest - 2 * count * 0.99**count / (1 - 0.99**count)
    rate = 0.1 / (1 - 0.9**count)
    if length <= 5:
        return rate
    square = torch.zeros_like(history[0])
    for gradient in history:
        square = 0.99 * square + 0.01 * gradient**2
    rectified = ((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) ** 0.5
    return rate * rectified * (1 - 0.99**count) ** 0.5 / (square.sqrt() + 1e-3)


def adagrad(history: list[torch.Tensor]) -> torch.Tensor:
    total = sum(gradient**2 for gradient in history)
    return 0.1 / (1 + (len(history) - 1) * 0.05) / ((total + 0.01).sqrt() + 1e-3)


def rmsprop(history: list[torch.Tensor]) -> torch.Tensor:
    square = torch.zeros_like(history[0])
    for gradient in history:
        square = 0.9 * square + 0.1 * gradient**2
    return 0.1 / (square.sqrt() + 1e-3)


def centered(history: list[torch.Tensor]) -> torch.Tensor:
    square = mean = torch.zeros_like(history[0])
    for gradient in history:
        square, mean = 0.9 * square + 0.1 * gradient**2, 0.9 * mean + 0.1 * gradient
    return 0.1 / ((square - mean**2).sqrt() + 1e-3)


BETAS = {"lr": 0.1, "betas": (0.9, 0.99), "eps": 1e-3}
RULES = {
    "sgd": (lambda p: torch.optim.SGD(p, 0.1), sgd),
    "momentum": (lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), sgd),
    "adam": (lambda p: torch.optim.Adam(p, **BETAS), adam),
    "adam-foreach": (lambda p: torch.optim.Adam(p, **BETAS, foreach=True), adam),
    "adam-fused": (lambda p: torch.optim.Adam(p, **BETAS, fused=True), adam),
    "adamw": (lambda p: torch.optim.AdamW(p, **BETAS), adam),
    "amsgrad": (lambda p: torch.optim.Adam(p, **BETAS, amsgrad=True), amsgrad),
    "nadam": (lambda p: torch.optim.NAdam(p, **BETAS), nadam),
    "radam": (lambda p: torch.optim.RAdam(p, **BETAS), radam),
    "adagrad": (
        lambda p: torch.optim.Adagrad(p, 0.1, eps=1e-3, lr_decay=0.05, initial_accumulator_value=0.01),
        adagrad,
    ),
    "rmsprop": (lambda p: torch.optim.RMSprop(p, 0.1, alpha=0.9, eps=1e-3), rmsprop),
    "rmsprop-centered": (lambda p: torch.optim.RMSprop(p, 0.1, alpha=0.9, eps=1e-3, centered=True), centered),
    "adamax": (lambda p: torch.optim.Adamax(p, 0.1), sgd),  # not read from its state: the learning rate
}


@pytest.mark.parametrize("name", RULES)
def test_proximal_step_matches_bare_optimiser_then_formula(name):
    """One step of the bare optimiser, then max(t - step * penalty, 0) by hand, for two models of equal weights."""
    make, step_of = RULES[name]
    model = Model()
    optimizer = ProximalOptimizer(make(model.parameters()), model, PENALTY)
    history: list[torch.Tensor] = []
    for step in range(9):
        bare = copy.deepcopy(model)
        bare_optimizer = make(bare.parameters())
        bare_optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        for one, by in ((model, optimizer), (bare, bare_optimizer)):
            by.zero_grad()
            one.loss(step).backward()
            by.step()
        history.append(model.table.transform.grad.clone())
        expected = (bare.table.transform.detach() - PENALTY * step_of(history)).clamp(min=0)
        torch.testing.assert_close(model.table.transform.detach(), expected, rtol=1e-6, atol=1e-8)
        for name_, parameter in bare.named_parameters():
            if name_ != "table.transform":
                got = dict(model.named_parameters())[name_]
                torch.testing.assert_close(got, parameter, rtol=1e-6, atol=1e-9)  # loading rounds NAdam's own state
    assert model.table.transform[SEEN].any()  # otherwise there would be nothing to test


@pytest.mark.parametrize("kind", [torch.optim.Adam, Yogi])
def test_plain_threshold_is_rate_times_penalty_for_all_entries(kind):
    """Algorithm 1 as printed: rows that never occur shrink by the same threshold as others."""
    model, bare = Model(), Model()
    optimizer = ProximalOptimizer(kind(model.parameters(), lr=0.1, eps=1e-3), model, PENALTY, threshold="plain")
    run(model, optimizer, 1)
    run(bare, kind(bare.parameters(), lr=0.1, eps=1e-3), 1)
    wanted = (bare.table.transform - 0.1 * PENALTY).clamp(min=0)
    torch.testing.assert_close(model.table.transform, wanted, rtol=0, atol=1e-15)
    start = Model().table.transform[UNSEEN]
    torch.testing.assert_close(model.table.transform[UNSEEN], (start - 0.1 * PENALTY).clamp(min=0))
    assert pickle.loads(pickle.dumps(optimizer)).threshold == "plain"


def test_plain_threshold_uses_rate_of_table_group():
    model, bare = Model(), Model()

    def grouped(model: Model) -> torch.optim.Optimizer:
        table = [{"params": list(model.table.parameters()), "lr": 0.3}]
        others = [weight for name, weight in model.named_parameters() if not name.startswith("table")]
        return torch.optim.Adam([{"params": others or [nn.Parameter(torch.zeros(1))], "lr": 0.01}, *table], eps=1e-3)

    run(model, ProximalOptimizer(grouped(model), model, PENALTY, threshold="plain"), 1)
    run(bare, grouped(bare), 1)
    wanted = (bare.table.transform - 0.3 * PENALTY).clamp(min=0)
    torch.testing.assert_close(model.table.transform, wanted, rtol=0, atol=1e-15)


def test_unknown_threshold_is_refused_with_choices():
    model = Model()
    with pytest.raises(BadInputError, match='threshold must be "adaptive" or "plain", got \'soft\''):
        ProximalOptimizer(torch.optim.Adam(model.parameters()), model, PENALTY, threshold="soft")


def test_adam_like_optimisers_of_other_packages_are_adaptive():
    """Optimisers of other packages keep the same state as Adam."""

    class Other(torch.optim.Optimizer):
        def __init__(self, parameters):
            super().__init__(parameters, BETAS)

        @torch.no_grad()
        def step(self, closure=None):
            for parameter in self.param_groups[0]["params"]:
                state = self.state[parameter]
                state["step"] = state.get("step", 0) + 1
                state["exp_avg_sq"] = torch.full_like(parameter, 1e-6)

    model = Model()
    before = model.table.transform.detach().clone()
    optimizer = ProximalOptimizer(Other(model.parameters()), model, 1e-5)
    model.loss(0).backward()
    optimizer.step()
    threshold = 1e-5 * 0.1 / 0.1 / ((1e-6 / 0.01) ** 0.5 + 1e-3)
    torch.testing.assert_close(model.table.transform.detach(), (before - threshold).clamp(min=0))


def test_rows_that_never_occur_become_empty_and_padding_stays_zero():
    model = Model()
    optimizer = ProximalOptimizer(torch.optim.Adam(model.parameters(), **BETAS), model, 3e-4)
    assert model.table.transform[UNSEEN].all()
    run(model, optimizer, 60)
    assert not model.table.transform[UNSEEN].any()
    assert not model.table.transform[0].any()
    assert model.table.transform[SEEN].any()


def test_penalty_of_zero_only_clamps_negative_entries():
    model, bare = Model(), Model()
    for one in (model, bare):
        one.table.transform.grad = torch.ones_like(one.table.transform)
    ProximalOptimizer(torch.optim.SGD(model.parameters(), 0.5), model, 0).step()
    torch.optim.SGD(bare.parameters(), 0.5).step()
    assert (bare.table.transform < 0).any()
    assert torch.equal(model.table.transform, bare.table.transform.clamp(min=0))


def test_penalty_may_change_during_training():
    model = Model()
    optimizer = ProximalOptimizer(torch.optim.SGD(model.parameters(), 0.1), model, 0)
    run(model, optimizer, 1)
    optimizer.penalty = 1e9
    run(model, optimizer, 1)
    assert not model.table.transform.any()


def test_parameter_groups_shrink_by_their_own_rate():
    one, two = Model().table, Model().table
    groups = [{"params": one.parameters(), "lr": 0.1}, {"params": two.parameters(), "lr": 0.2}]
    optimizer = ProximalOptimizer(torch.optim.SGD(groups), [one, two], 0.01)
    before = one.transform.detach().clone()
    for layer in (one, two):
        layer.transform.grad = torch.zeros_like(layer.transform)
    optimizer.step()
    torch.testing.assert_close(one.transform.detach(), (before - 0.001).clamp(min=0))
    torch.testing.assert_close(two.transform.detach(), (before - 0.002).clamp(min=0))


def test_tables_shrink_once_when_used_twice_and_never_without_gradient():
    tied, idle = Model(), Model()
    model = nn.ModuleList([tied, nn.ModuleDict({"again": tied.table}), idle])
    optimizer = ProximalOptimizer(torch.optim.SGD(model.parameters(), 0.1), model, 0.01)
    before = tied.table.transform.detach().clone()
    tied.table.transform.grad = torch.zeros_like(before)
    optimizer.step()
    torch.testing.assert_close(tied.table.transform.detach(), (before - 0.001).clamp(min=0))
    assert torch.equal(idle.table.transform, before)


@pytest.mark.parametrize("name", ["sgd", "adam", "adagrad"])
def test_learning_rate_schedulers_drive_threshold(name):
    """A scheduler accepts the wrapper like the bare optimiser, and the threshold follows the rate."""
    model = Model()
    optimizer = ProximalOptimizer(RULES[name][0](model.parameters()), model, PENALTY)
    warm = lr_scheduler.LinearLR(optimizer, 0.5, total_iters=2)
    after = lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.0 if epoch > 4 else 1.0)
    for step in range(8):
        if step == 6:
            before = model.table.transform.detach().clone()
        run(model, optimizer, 1)
        warm.step()
        after.step()
    assert optimizer.param_groups[0]["lr"] == 0
    assert torch.equal(model.table.transform, before)
    plateau = lr_scheduler.ReduceLROnPlateau(optimizer)
    plateau.step(1.0)
    cycle = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=10, cycle_momentum=name == "adam")
    cycle.step()
    assert optimizer.param_groups is optimizer.optimizer.param_groups


def test_closures_work_with_optimisers_that_need_one():
    for make in (RULES["sgd"][0], lambda p: torch.optim.LBFGS(p, 0.1, max_iter=2)):
        model = Model()
        optimizer = ProximalOptimizer(make(model.parameters()), model, 1e9)

        def closure(model: Model = model, optimizer: ProximalOptimizer = optimizer) -> torch.Tensor:
            optimizer.zero_grad()
            loss = model.loss(0)
            loss.backward()
            return loss

        expected = model.loss(0).item()
        assert optimizer.step(closure).item() == pytest.approx(expected)
        assert not model.table.transform.any()


def test_run_interrupted_equals_uninterrupted_run():
    whole, first = Model(), Model()
    make = RULES["adam"][0]
    run(whole, ProximalOptimizer(make(whole.parameters()), whole, PENALTY), 6)
    optimizer = ProximalOptimizer(make(first.parameters()), first, PENALTY)
    run(first, optimizer, 3)
    buffer = io.BytesIO()
    torch.save({"model": first.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
    buffer.seek(0)
    saved = torch.load(buffer, weights_only=True)
    second = Model()
    second.load_state_dict(saved["model"])
    resumed = ProximalOptimizer(make(second.parameters()), second, PENALTY)
    resumed.load_state_dict(saved["optimizer"])
    run(second, resumed, 3)
    for one, two in zip(whole.parameters(), second.parameters(), strict=True):
        assert torch.equal(one, two)


def test_state_is_shared_with_bare_optimiser():
    model = Model()
    bare = RULES["adam"][0](model.parameters())
    optimizer = ProximalOptimizer(bare, model, PENALTY)
    run(model, optimizer, 2)
    assert optimizer.state is bare.state
    assert optimizer.defaults is bare.defaults
    assert optimizer.state_dict().keys() == bare.state_dict().keys()
    optimizer.add_param_group({"params": [nn.Parameter(torch.zeros(1))], "lr": 0.5})
    assert bare.param_groups[1]["lr"] == 0.5
    assert "lr: 0.5" in repr(optimizer)
    optimizer.zero_grad()
    assert model.head.weight.grad is None
    both = copy.deepcopy({"model": model, "optimizer": optimizer})
    before = model.table.transform.detach().clone()
    run(both["model"], both["optimizer"], 1)
    assert torch.equal(model.table.transform, before)
    assert not torch.equal(both["model"].table.transform, before)


def test_state_hooks_are_those_of_bare_optimiser():
    model, seen = Model(), []
    optimizer = ProximalOptimizer(RULES["sgd"][0](model.parameters()), model, PENALTY)
    for hook in ("state_dict_pre", "state_dict_post", "load_state_dict_pre", "load_state_dict_post"):
        getattr(optimizer, f"register_{hook}_hook")(lambda *given: seen.append(given[0]))
    optimizer.load_state_dict(optimizer.state_dict())
    assert seen == [optimizer.optimizer] * 4


def test_step_hooks_run_after_proximal_step():
    model = Model()
    optimizer = ProximalOptimizer(RULES["sgd"][0](model.parameters()), model, 1e9)
    seen: list[bool] = []
    optimizer.register_step_post_hook(lambda *_: seen.append(bool(model.table.transform.any())))
    run(model, optimizer, 2)
    assert seen == [False, False]


def test_gradient_scaler_skips_both_steps_together():
    model = Model().float()
    optimizer = ProximalOptimizer(RULES["sgd"][0](model.parameters()), model, 1e9)
    scaler = torch.amp.GradScaler("cpu")
    for bad in (True, False):
        optimizer.zero_grad()
        loss = model.table(torch.tensor([1, 2])).sum() * (float("inf") if bad else 1)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert model.table.transform.any() == bad


def test_table_frozen_later_is_left_unchanged():
    model = Model().float()
    optimizer = ProximalOptimizer(RULES["sgd"][0](model.parameters()), model, PENALTY)
    run(model.double(), optimizer, 1)
    model.float().table.freeze()
    model.head(model.table(torch.tensor(1))).sum().backward()
    optimizer.step()


def test_tables_that_cannot_be_stepped_are_refused():
    model = Model()
    parameters = list(model.parameters())
    with pytest.raises(BadInputError, match="no trainable ANTEmbedding"):
        ProximalOptimizer(torch.optim.SGD(parameters, 0.1), model.head, PENALTY)
    with pytest.raises(BadInputError, match="not among the optimiser's parameters"):
        ProximalOptimizer(torch.optim.SGD(model.head.parameters(), 0.1), model, PENALTY)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (lambda sgd, model: (sgd, list(model.parameters())), "layers: got a Parameter, expected the model"),
        (lambda sgd, model: (sgd, None), "layers: got a NoneType, expected the model"),
        (lambda sgd, model: (model, sgd), "optimizer: got a Model, .*ProximalOptimizer.optimizer, model, penalty"),
        (lambda sgd, model: (None, model), "optimizer: got a NoneType, expected one of torch.optim"),
        (lambda sgd, model: (list(model.parameters()), model), "optimizer: got a list, expected one of torch.optim"),
        (lambda sgd, model: (ProximalOptimizer(sgd, model, 0), model), "optimizer: got a ProximalOptimizer"),
    ],
)
def test_arguments_of_other_types_are_refused(arguments, message):
    model = Model()
    with pytest.raises(BadInputError, match=message):
        ProximalOptimizer(*arguments(torch.optim.SGD(model.parameters(), 0.1), model), 0)


@pytest.mark.parametrize("bad", [torch.tensor([[1], [1]]), [1, 2], []])
def test_entries_without_layer_are_refused(bad):
    model = Model()
    with pytest.raises(BadInputError, match=r"unpenalized: got a .*such as \{layer: entries\}"):
        ProximalOptimizer(torch.optim.SGD(model.parameters(), 0.1), model, 0, bad)


def test_penalty_accepts_numpy_number():
    model = Model()
    optimizer = ProximalOptimizer(torch.optim.SGD(model.parameters(), 0.1), model, np.float32(0.5))
    assert type(optimizer.penalty) is float
    assert optimizer.penalty == 0.5


@pytest.mark.parametrize("bad", [-0.1, float("nan"), float("inf"), 1e300, 10**400, True, None, "x", 1j])
def test_penalty_that_is_no_weight_is_refused_at_any_time(bad):
    model = Model()
    message = "penalty must be a finite number of at least 0, got "
    with pytest.raises(BadInputError, match=message):
        ProximalOptimizer(torch.optim.SGD(model.parameters(), 0.1), model, bad)
    optimizer = ProximalOptimizer(torch.optim.SGD(model.parameters(), 0.1), model, PENALTY)
    with pytest.raises(BadInputError, match=message):
        optimizer.penalty = bad
    assert optimizer.penalty == PENALTY


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))])
def test_copies_and_pickles_keep_penalty_and_may_change_it(duplicate):
    model = Model()
    optimizer = ProximalOptimizer(torch.optim.SGD(model.parameters(), 0.1), model, PENALTY)
    again, clone = duplicate((model, optimizer))
    assert clone.penalty == PENALTY
    clone.penalty = 1e9
    run(again, clone, 1)
    run(model, optimizer, 1)
    assert not again.table.transform.any()
    assert model.table.transform.any()
