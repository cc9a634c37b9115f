"""Yogi against its formulas in Python floats, alone and with the proximal step."""

import io
import math

import pytest
import torch
from torch import nn

from edge_embed.errors import BadInputError
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.proximal import ProximalOptimizer
from edge_embed.layers.yogi import Yogi

OPTIONS = {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-2, "initial_accumulator_value": 0.3}
PAPER = {"lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-3, "initial_accumulator_value": 1e-6}


def by_hand(start: float, gradients: list[float], lr, betas, eps, initial_accumulator_value) -> tuple[float, float]:
    """Return one number after these gradients, and the step size of the last one."""
    value, mean, variance, step = start, 0.0, initial_accumulator_value, math.nan
    for count, gradient in enumerate(gradients, 1):
        mean = betas[0] * mean + (1 - betas[0]) * gradient
        square = gradient * gradient
        variance -= (1 - betas[1]) * ((variance > square) - (variance < square)) * square
        step = lr * math.sqrt(1 - betas[1] ** count) / (1 - betas[0] ** count) / (math.sqrt(variance) + eps)
        value -= step * mean
    return value, step


def gradients_of(steps: int, shape: tuple[int, ...]) -> list[torch.Tensor]:
    """Return zero, tiny and large gradients, so that v grows and falls."""
    torch.manual_seed(0)
    return [torch.randn(shape, dtype=torch.float64) * 10.0 ** ((step % 5) - 3) * (step != 2) for step in range(steps)]


@pytest.mark.parametrize("options", [OPTIONS, {}], ids=["given", "of the paper"])
def test_parameters_move_by_formulas(options):
    parameters = [nn.Parameter(torch.randn(shape, dtype=torch.float64)) for shape in ((3, 2), (4,), ())]
    starts = [parameter.detach().clone() for parameter in parameters]
    histories = [gradients_of(8, parameter.shape) for parameter in parameters]
    optimizer = Yogi(parameters, **options)
    for step in range(8):
        for parameter, history in zip(parameters, histories, strict=True):
            parameter.grad = history[step].clone()
        optimizer.step()
    for parameter, start, history in zip(parameters, starts, histories, strict=True):
        for at in range(parameter.numel()):
            given = [gradient.reshape(-1)[at].item() for gradient in history]
            expected, _ = by_hand(start.reshape(-1)[at].item(), given, **(options or PAPER))
            assert parameter.reshape(-1)[at].item() == pytest.approx(expected, rel=1e-12)


def test_proximal_step_uses_step_size_of_yogi():
    """Words whose gradient is zero are included: their v stays at 1e-6."""
    torch.manual_seed(0)
    layer = ANTEmbedding(5, 3, 2, dtype=torch.float64)
    optimizer = ProximalOptimizer(Yogi(layer.parameters()), layer, 0.2)
    history: list[torch.Tensor] = []
    for step in range(6):
        before = layer.transform.detach().clone()
        optimizer.zero_grad()
        layer(torch.tensor([1, 2 + step % 2])).square().sum().backward()
        optimizer.step()
        history.append(layer.transform.grad.clone())
        for row in range(5):
            for column in range(2):
                given = [gradient[row, column].item() for gradient in history]
                moved, rate = by_hand(0.0, given, **PAPER)
                before_last = by_hand(0.0, given[:-1], **PAPER)[0]
                expected = max(before[row, column].item() + moved - before_last - 0.2 * rate, 0)
                assert layer.transform[row, column].item() == pytest.approx(expected, abs=1e-12)
    assert layer.transform[1:4].any()
    assert not layer.transform[[0, 4]].any()  # they never occurred


def test_parameter_groups_have_own_rates_and_skip_missing_gradients():
    one, two, idle = (nn.Parameter(torch.ones(2, dtype=torch.float64)) for _ in range(3))
    optimizer = Yogi([{"params": [one, idle]}, {"params": [two], "lr": 0.5, "initial_accumulator_value": 4.0}])
    for parameter in (one, two):
        parameter.grad = torch.full((2,), 3.0, dtype=torch.float64)
    optimizer.step()
    assert one[0].item() == pytest.approx(by_hand(1.0, [3.0], **PAPER)[0])
    assert two[0].item() == pytest.approx(by_hand(1.0, [3.0], 0.5, (0.9, 0.999), 1e-3, 4.0)[0])
    assert torch.equal(idle, torch.ones_like(idle))
    assert idle not in optimizer.state


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_run_interrupted_equals_uninterrupted_run(dtype):
    gradients = [gradient.to(dtype) for gradient in gradients_of(9, (4, 3))]
    runs = []
    for stop in (None, 4):
        parameter = nn.Parameter(torch.ones(4, 3, dtype=dtype))
        optimizer = Yogi([parameter], **OPTIONS)
        for step, gradient in enumerate(gradients):
            if step == stop:
                buffer = io.BytesIO()
                torch.save([parameter.detach(), optimizer.state_dict()], buffer)
                buffer.seek(0)
                value, state = torch.load(buffer, weights_only=True)
                parameter = nn.Parameter(value)
                optimizer = Yogi([parameter])  # the state restores the options
                optimizer.load_state_dict(state)
            parameter.grad = gradient.clone()
            optimizer.step()
        runs.append(parameter)
    assert torch.equal(*runs)
    assert runs[0].dtype == dtype


def test_closure_computes_loss_and_gradients():
    parameter = nn.Parameter(torch.tensor([2.0]))
    optimizer = Yogi([parameter])

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = parameter.square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 4
    assert parameter.item() < 2


def test_sparse_gradients_are_refused_with_remedy():
    table = nn.Embedding(5, 2, sparse=True)
    table(torch.tensor([1])).sum().backward()
    with pytest.raises(BadInputError, match=r"got a sparse gradient of a parameter \[5, 2\]: .*sparse=False"):
        Yogi(table.parameters()).step()


@pytest.mark.parametrize(
    "bad",
    [
        {"lr": -1},
        {"lr": math.nan},
        {"eps": "x"},
        {"betas": (0.9, 1.0)},
        {"betas": 0.9},
        {"betas": (0.9,)},
        {"initial_accumulator_value": math.inf},
    ],
)
def test_options_out_of_range_are_refused(bad):
    with pytest.raises(BadInputError, match=next(iter(bad))):
        Yogi([nn.Parameter(torch.ones(1))], **bad)
    with pytest.raises(BadInputError, match=next(iter(bad))):
        Yogi([{"params": [nn.Parameter(torch.ones(1))], **bad}])
    optimizer = Yogi([nn.Parameter(torch.ones(1))])
    with pytest.raises(BadInputError, match=next(iter(bad))):
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))], **bad})
    assert len(optimizer.param_groups) == 1


def test_complex_parameters_are_refused_with_remedy():
    optimizer, weights = Yogi([nn.Parameter(torch.ones(1))]), nn.Parameter(torch.ones(1, dtype=torch.cfloat))
    with pytest.raises(BadInputError, match=r"torch\.view_as_real"):
        Yogi([weights])
    with pytest.raises(BadInputError, match=r"torch\.view_as_real"):
        optimizer.add_param_group({"params": iter([weights])})
    assert len(optimizer.param_groups) == 1


def test_learning_rate_may_be_tensor():
    one, two = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    for parameter, lr in ((one, 0.1), (two, torch.tensor(0.1))):
        parameter.grad = torch.ones(1)
        Yogi([parameter], lr=lr).step()
    assert torch.allclose(one, two)
