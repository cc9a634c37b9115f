"""nbANT: the objective of eq. (34), the number of anchors that follows from it, and the state that survives changes."""

import io

import numpy as np
import pytest
import torch
from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.layers.anchor_search import AnchorSearch
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.penalty_schedule import PenaltySchedule
from edge_embed.layers.proximal import ProximalOptimizer
from edge_embed.layers.yogi import Yogi

OPTIMIZERS = {
    "yogi": Yogi,
    "adam": lambda parameters: torch.optim.Adam(parameters, 0.01, eps=1e-3, amsgrad=True),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, 0.1, initial_accumulator_value=0.3),
    "momentum": lambda parameters: torch.optim.SGD(parameters, 0.1, momentum=0.9),
}


class Recommender(nn.Module):
    """A model whose rating is the product of a user's and an item's row."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.users = ANTEmbedding(7, 4, 5, padding_idx=0)
        self.items = ANTEmbedding(9, 4, 3)

    def forward(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        return (self.users(users) * self.items(items)).sum(-1)


def train(model: Recommender, optimizer: torch.optim.Optimizer, steps: int = 1) -> torch.Tensor:
    for step in range(steps):
        optimizer.zero_grad()
        users, items = torch.arange(6), (torch.arange(6) + step) % 9
        loss = (model(users, items) - items.float()).square().mean()
        loss.backward()
        optimizer.step()
    return loss


def made(name: str = "yogi", penalty: float = 1e-3, **options: object) -> tuple[Recommender, AnchorSearch]:
    model = Recommender()
    optimizer = ProximalOptimizer(OPTIMIZERS[name](model.parameters()), model, penalty)
    return model, AnchorSearch(optimizer, 0.5, **options)


def columns(model: Recommender, search: AnchorSearch, count: int) -> list[torch.Tensor]:
    """Return parameters and optimiser state of the first anchors of the users."""
    users = model.users
    states = [search.optimizer.state[parameter] for parameter in (users.anchors, users.transform)]
    found = [users.anchors[:count], users.transform[:, :count]]
    for state, axis in zip(states, (0, 1), strict=True):
        found += [
            value.narrow(axis, 0, count)
            for value in state.values()
            if isinstance(value, torch.Tensor) and value.ndim == 2
        ]
    return [tensor.detach().clone() for tensor in found]


def test_objective_matches_equation_34():
    model, search = made()
    train(model, search.optimizer)
    nonzeros = int((model.users.transform > 0).sum() + (model.items.transform > 0).sum())
    assert 0 < nonzeros < 7 * 5 + 9 * 3
    search.step(torch.tensor(2.0))
    (seen,) = search.history
    assert (seen.loss, seen.num_nonzeros, seen.num_anchors) == (2.0, nonzeros, (5, 3))
    assert seen.objective == pytest.approx(2 + 1e-3 * nonzeros + (0.5 - 1e-3) * (5 + 3))


BOTH, AROUND = [50, 0, 40, 0, 45, 0, 38, 0, 60, 0], [*[(7, 5)] * 2, *[(9, 7)] * 2, *[(7, 5)] * 2, *[(5, 3)] * 2, (7, 5)]
UP, DOWN = [(5, 3), (7, 5), (9, 7), (11, 9), (12, 11), (12, 12)], [(7, 5), (5, 3), (3, 1), (1, 1), (1, 1)]


@pytest.mark.parametrize(
    ("losses", "counts"),
    [
        # A falling objective adds anchors, at most 12, with two calls at each size.
        ([100, 90, 80, 70, 60, 50, 40, 30, 20, 10], [size for size in UP[1:] for _ in range(2)]),
        # A rising objective that falls when anchors go removes more of them; at least 1 stays.
        ([20, 99, 99, 99, 80, 80, 70, 70, 60], [size for size in DOWN for _ in range(2)][:9]),
        # An objective that rises on both sides of (7, 5) keeps that size until a neighbour was better,
        ([*BOTH, 37, 36, 99], [*AROUND, *[(7, 5)] * 3, (5, 3)]),
        ([*BOTH, 37, 36, 50], [*AROUND, *[(7, 5)] * 3, (9, 7)]),
        # or until half of all steps were at that size.
        ([*BOTH, *[37] * 8], [*AROUND, *[(7, 5)] * 8, (9, 7)]),
        # Training alone lowers the objective, at the cost of unneeded anchors, which go again.
        ([50, 49, 60, 59, 58], [(7, 5), (7, 5), (5, 3), (5, 3), (3, 1)]),
    ],
)
def test_anchors_are_added_and_removed_by_objective(losses, counts):
    """The losses differ so much that the rest of the objective does not matter."""
    model, search = made(change=2, most=12)
    seen = []
    for loss in losses:
        before = model.users.num_anchors, model.items.num_anchors
        changed = search.step(loss)
        seen.append((model.users.num_anchors, model.items.num_anchors))
        assert changed == (seen[-1] != before)
    assert seen == counts
    assert model.users.transform.shape == (7, counts[-1][0])
    assert model.users.anchors.shape == (counts[-1][0], 4)


def test_trend_of_epochs_is_literally_that_of_algorithm_2():
    """Each call adds anchors after a fall, removes some after a rise, and stays at the first one and without either."""
    model, search = made(change=2, most=12, trend="epochs")
    seen = []
    for loss in (50, 40, 30, 60, 90, 80, 1e9, 2e9, 3e9):
        search.step(loss)
        seen.append((model.users.num_anchors, model.items.num_anchors))
    assert seen == [(5, 3), (7, 5), (9, 7), (7, 5), (5, 3), (7, 5), (5, 3), (3, 1), (1, 1)]
    same, search = made(trend="epochs")
    assert [search.step(1.0), search.step(1.0), same.users.num_anchors] == [False, False, 5]


def test_unknown_trend_is_refused():
    with pytest.raises(BadInputError, match='trend must be "sizes" or "epochs", got \'calls\''):
        made(trend="calls")


def test_table_with_most_anchors_loses_some_first():
    model, search = made(most=5)
    model.items.anchors.requires_grad_(False)
    assert search.step(1.0)
    assert (model.users.num_anchors, model.items.num_anchors) == (4, 3)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_anchors_that_return_keep_their_values(name):
    model, search = made(name, change=2)
    train(model, search.optimizer, 3)
    table = search._tables[0]
    before = columns(model, search, 5)
    rows = model.users(torch.arange(7)).detach()
    table.resize(3)
    kept = columns(model, search, 3)
    train(model, search.optimizer, 2)
    assert not torch.equal(columns(model, search, 3)[0], kept[0])  # the remaining anchors train on
    table.resize(2)
    table.resize(6)
    after = columns(model, search, 6)
    assert len(after) == len(before)
    for old, new in zip(before, after, strict=True):
        axis = 0 if old.shape[0] == 5 else 1
        assert torch.equal(new.narrow(axis, 3, 2), old.narrow(axis, 3, 2))
    train(model, search.optimizer)  # and all six are trained
    assert model.users.anchors.grad[5].any()
    assert model.users(torch.arange(7)).shape == rows.shape


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_anchors_removed_and_restored_at_once_are_unchanged(name):
    plain, searched = made(name), made(name)
    for model, search in (plain, searched):
        train(model, search.optimizer, 2)
        if model is searched[0]:
            for table, count in zip(search._tables, (1, 2), strict=True):
                before = table.layer.num_anchors
                table.resize(count)
                table.resize(before)
        train(model, search.optimizer, 3)
    for one, other in zip(plain[0].parameters(), searched[0].parameters(), strict=True):
        assert torch.equal(one, other)


def test_anchors_that_are_new_begin_as_in_new_table():
    model, search = made("adagrad")
    train(model, search.optimizer)
    torch.manual_seed(1)
    search._tables[0].resize(2005)
    users, (anchors, transform) = model.users, (model.users.anchors, model.users.transform)
    assert not transform[0].any()  # padding
    assert transform[1:, 5:].min() >= 0
    assert transform[1:, 5:].square().mean().item() == pytest.approx(2 / 7, rel=0.1)
    assert anchors[5:].square().mean().item() == pytest.approx(2 / 2005, rel=0.1)
    assert (search.optimizer.state[transform]["sum"][:, 5:] == 0.3).all()
    assert users.num_anchors == 2005
    assert isinstance(anchors, nn.Parameter)
    held = {id(parameter) for group in search.optimizer.param_groups for parameter in group["params"]}
    assert held == {id(parameter) for parameter in model.parameters()}
    assert set(map(id, search.optimizer.state)) == held


def test_entries_of_returned_anchors_are_unpenalised_again():
    model = Recommender()
    entries = {model.users: torch.tensor([[1, 2], [0, 4]])}
    optimizer = ProximalOptimizer(torch.optim.SGD(model.parameters(), 1e-9), model, 1e12, entries)
    table = AnchorSearch(optimizer, 1e13)._tables[0]
    table.resize(3)
    train(model, optimizer)
    assert model.users.transform.nonzero().tolist() == [[1, 0]]
    table.resize(5)
    train(model, optimizer)
    assert model.users.transform.nonzero().tolist() == [[1, 0], [2, 4]]


def test_search_step_leaves_held_loss_usable():
    """The graph of the loss holds the old parameters."""
    model, search = made()
    loss = train(model, search.optimizer)
    search.step(loss)
    again = train(model, search.optimizer)
    assert again.requires_grad
    assert loss.requires_grad


def test_compiled_model_follows_number_of_anchors():
    torch._dynamo.reset()
    runs = []
    for compiled in (False, True):
        model, search = made()
        call = torch.compile(model, backend="aot_eager") if compiled else model
        for _ in range(3):
            search.step(train(call, search.optimizer).item())
        runs.append(model)
    for one, other in zip(*(model.parameters() for model in runs), strict=True):
        torch.testing.assert_close(one, other)


def test_search_resumed_equals_uninterrupted_search():
    losses = [50.0, 90.0, 90.0, 0.0, 80.0, 0.0, 70.0, 0.0, 90.0, 0.0, 60.0]  # anchors go, come and return
    runs = []
    for stop in (None, 6):
        model, search = made(change=2)
        for at, loss in enumerate(losses):
            if at == stop:
                parts = {"search": search, "model": model, "optimizer": search.optimizer}
                buffer = io.BytesIO()
                torch.save({name: part.state_dict() for name, part in parts.items()}, buffer)
                buffer.seek(0)
                saved = torch.load(buffer, weights_only=True)
                with torch.random.fork_rng():
                    model, search = made(change=2)
                    for name, part in {"search": search, "model": model, "optimizer": search.optimizer}.items():
                        part.load_state_dict(saved[name])
            train(model, search.optimizer)
            torch.manual_seed(at)
            search.step(loss)
        runs.append((model, search))
    (whole, one), (resumed, other) = runs
    assert one.history == other.history
    assert {seen.num_anchors for seen in one.history} == {(5, 3), (7, 5), (3, 1), (1, 1), (3, 3)}
    for got, expected in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(got, expected)


def test_table_after_search_freezes_like_any_other():
    model, search = made()
    for _ in range(2):
        search.step(train(model, search.optimizer).item())
    rows = model.users(torch.arange(7)).detach()
    torch.testing.assert_close(model.users.freeze()(torch.arange(7)), rows)
    assert model.users.to_packed().anchors.shape == (6, 4)
    with pytest.raises(BadInputError, match="search before freezing"):
        search.step(1.0)


def test_invalid_arguments_of_search_are_refused():
    model = Recommender()
    optimizer = ProximalOptimizer(Yogi(model.parameters()), model, 0.1)
    for bad in ({"anchor_penalty": 0.1}, {"change": 0}, {"most": 4}, {"anchor_penalty": float("nan")}):
        with pytest.raises(BadInputError):
            AnchorSearch(optimizer, **{"anchor_penalty": 1.0, **bad})
    for bad in (-1.0, "a", None):
        with pytest.raises(BadInputError, match=r"^anchor_penalty must be a finite number of at least 0, got"):
            AnchorSearch(optimizer, bad)
    for bad in (optimizer.optimizer, None):
        with pytest.raises(BadInputError, match=r"expected an edge_embed\.ProximalOptimizer"):
            AnchorSearch(bad, 1.0)
    for kind in (torch.optim.LBFGS, torch.optim.Adafactor):
        with pytest.raises(BadInputError, match=f"got {kind.__name__}, whose state has no entry for each number; use"):
            AnchorSearch(ProximalOptimizer(kind(model.parameters()), model, 0.1), 1.0)
    search = AnchorSearch(optimizer, 1.0)
    with pytest.raises(BadInputError, match="finite number, got nan"):
        search.step(float("nan"))
    PenaltySchedule(optimizer, {0: 1.0})
    with pytest.raises(BadInputError, match=r"anchor_penalty: got 1\.0"):
        search.step(1.0)
    single = ProximalOptimizer(Yogi(model.users.parameters()), model.users, 0.1)
    with pytest.raises(BadInputError, match="state_dict: got 1 tables, expected 2"):
        search.load_state_dict(AnchorSearch(single, 1.0).state_dict())
    assert search.history == []


@pytest.mark.parametrize("name", ["transform", "anchors"])
def test_table_without_gradients_keeps_its_anchors(name):
    model, search = made()
    rows = model.users(torch.arange(7)).detach()
    getattr(model.users, name).requires_grad_(False)
    assert search.step(1.0)
    assert (model.users.num_anchors, model.items.num_anchors) == (5, 4)
    assert torch.equal(model.users(torch.arange(7)), rows)
    AnchorSearch(search.optimizer, 0.5, most=4)  # the table with 5 anchors is not searched
    getattr(model.items, name).requires_grad_(False)
    with pytest.raises(BadInputError, match="got no table with trainable transform and anchors"):
        AnchorSearch(search.optimizer, 0.5)


@pytest.mark.parametrize("bad", ["a", None, torch.ones(2), float("inf"), 1j])
def test_loss_that_is_not_finite_is_refused(bad):
    _, search = made()
    with pytest.raises(BadInputError, match="the loss must be a finite number, got "):
        search.step(bad)
    assert search.history == []
    assert search.step(np.float32(2))


def _with(state: dict, count: object) -> dict:
    return {**state, "tables": [state["tables"][0], {**state["tables"][1], "num_anchors": count}]}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: None, "state of another object"),
        (lambda state: {}, "state of another object .*'history'"),
        (lambda state: {"history": []}, "state of another object .*'tables'"),
        (
            lambda state: {**state, "tables": [state["tables"][0], {"num_anchors": 3}]},
            "state of another object .*'off'",
        ),
        (
            lambda state: {**state, "tables": [state["tables"][0], {"off": {}}]},
            "state of another object .*'num_anchors'",
        ),
        (lambda state: {**state, "history": [{}]}, "state of another object .*'num_anchors'"),
        (lambda state: _with(state, 13), "most must be at least the 13 anchors"),
        (lambda state: _with(state, 0), "num_anchors must be at least 1, got 0"),
        (lambda state: _with(state, 2.0), r"num_anchors must be an integer, got 2\.0"),
    ],
)
def test_invalid_state_is_refused_before_anything_changes(change, message):
    _, search = made(most=12)
    search.step(1.0)
    state = search.state_dict()
    model, fresh = made(most=12)
    with pytest.raises(BadInputError, match=message):
        fresh.load_state_dict(change(state))
    assert (model.users.num_anchors, model.items.num_anchors, fresh.history) == (5, 3, [])


def test_search_continues_with_new_optimiser():
    """Removed anchors return with their values, without the old optimiser's state."""
    model, search = made(change=2)
    train(model, search.optimizer)
    before = model.users.anchors.detach().clone()
    search._tables[0].resize(1)
    fresh = AnchorSearch(ProximalOptimizer(Yogi(model.parameters()), model, 1e-3), 0.5)
    fresh.load_state_dict(search.state_dict())
    fresh._tables[0].resize(3)
    train(model, fresh.optimizer)
    fresh._tables[0].resize(5)
    assert torch.equal(model.users.anchors[3:], before[3:])
    train(model, fresh.optimizer)
