"""The penalty over the steps of an ordinary training loop."""

import math

import pytest
import torch

from edge_embed.errors import BadInputError
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.penalty_schedule import PenaltySchedule
from edge_embed.layers.proximal import ProximalOptimizer


def new_optimizer() -> ProximalOptimizer:
    layer = ANTEmbedding(3, 2, 2)
    return ProximalOptimizer(torch.optim.SGD(layer.parameters(), 0.1), layer, 9.0)


def penalties(points: dict[int, float], steps: int) -> list[float]:
    optimizer = new_optimizer()
    schedule = PenaltySchedule(optimizer, points)
    seen = []
    for _ in range(steps):
        seen.append(optimizer.penalty)
        schedule.step()
    return seen


@pytest.mark.parametrize(
    ("points", "expected"),
    [
        ({0: 0.5}, [0.5] * 6),
        ({0: 0.0, 4: 2.0}, [0.0, 0.5, 1.0, 1.5, 2.0, 2.0]),
        ({4: 3.0, 2: 1.0}, [1.0, 1.0, 1.0, 2.0, 3.0, 3.0]),
        ({2: 0.0, 3: 1.0}, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
    ],
    ids=["constant", "warm-up", "warm-up after a while", "step"],
)
def test_penalty_follows_lines_between_points(points, expected):
    assert penalties(points, 6) == pytest.approx(expected)


def test_schedule_resumed_continues_where_it_was_saved():
    points = {0: 0.0, 10: 1.0}
    first, second = new_optimizer(), new_optimizer()
    schedule = PenaltySchedule(first, points)
    for _ in range(3):
        schedule.step()
    resumed = PenaltySchedule(second, points)
    assert second.penalty == 0
    resumed.load_state_dict(schedule.state_dict())
    assert second.penalty == pytest.approx(0.3)
    resumed.step()
    assert second.penalty == pytest.approx(0.4)


@pytest.mark.parametrize("bad", [{}, None, {"steps": -1}, {"steps": 1.5}])
def test_invalid_state_of_schedule_is_refused(bad):
    optimizer = new_optimizer()
    schedule = PenaltySchedule(optimizer, {0: 0.0, 10: 1.0})
    schedule.step()
    with pytest.raises(BadInputError, match="steps"):
        schedule.load_state_dict(bad)
    assert optimizer.penalty == pytest.approx(0.1)


def test_optimizer_without_penalty_is_refused():
    for bad in (new_optimizer().optimizer, None):
        with pytest.raises(BadInputError, match=r"expected an edge_embed\.ProximalOptimizer"):
            PenaltySchedule(bad, {0: 0.1})


@pytest.mark.parametrize("bad", [{}, 1e-3, {-1: 0.0}, {0.5: 1.0}, {0: -1.0}, {0: math.nan}])
def test_invalid_points_of_schedule_are_refused(bad):
    with pytest.raises(BadInputError):
        PenaltySchedule(new_optimizer(), bad)
