"""`Yogi`, the optimiser of the ANT paper, which torch does not include.

    m = beta1 m + (1 - beta1) g
    v = v - (1 - beta2) sign(v - g^2) g^2
    p = p - step m,    step = lr sqrt(1 - beta2^t) / (1 - beta1^t) / (sqrt(v) + eps)

Sources: "Adaptive Methods for Nonconvex Optimization" (NeurIPS 2018), Algorithm 2. The corrections for the first steps
t = 1, 2, ... and the initial v are from the code that the authors of "Anchor & Transform" (ICLR 2021) released.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.optimizer import ParamsT

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.layers.arguments import is_number


@suggests_keywords
class Yogi(Optimizer):
    """Adam with an additive update of the second moment v, which forgets rare gradients slowly.

    In each step v grows or falls by a share of g^2, however large v is. The defaults are those of the ANT paper.
    Parameters without a gradient keep their state.

    Args:
        params: parameters or groups of them, as for ``torch.optim.Adam``.
        lr: learning rate.
        betas: decay of the mean m of the gradients, and decay of v; both in [0, 1).
        eps: constant added to the root of v; a smaller one makes larger steps for small gradients.
        initial_accumulator_value: v before the first step, at least 0.

    Raises:
        BadInputError: if a number is outside its range, also in a group, or a parameter is complex; in `step`, if a
            gradient is sparse.
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-3,
        initial_accumulator_value: float = 1e-6,
    ) -> None:
        defaults = {"lr": lr, "betas": betas, "eps": eps, "initial_accumulator_value": initial_accumulator_value}
        _check_options(defaults)
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group; omitted options have the defaults of the optimiser.

        Args:
            param_group: parameters and options, as for ``torch.optim.Adam``.

        Raises:
            BadInputError: if a number is outside its range, or a parameter is complex.
        """
        _check_options({**self.defaults, **param_group})
        super().add_param_group(param_group)
        if any(parameter.is_complex() for parameter in param_group["params"]):
            self.param_groups.pop()
            raise BadInputError("Yogi requires real parameters, got a complex one: give torch.view_as_real(parameter)")

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Run one step.

        Args:
            closure: function that computes the loss again and returns it, as for other optimisers.

        Returns:
            The loss of ``closure``, or None without one.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            parameters = [parameter for parameter in group["params"] if parameter.grad is not None]
            if parameters:
                self._move(group, parameters)
        return loss

    def _move(self, group: Mapping[str, Any], parameters: list[Tensor]) -> None:
        """Update all parameters of a group together: on a GPU, each kernel then processes many of them."""
        gradients = [_dense(parameter) for parameter in parameters]
        states = [self._counted(group, parameter) for parameter in parameters]
        means = [state["exp_avg"] for state in states]
        variances = [state["exp_avg_sq"] for state in states]
        beta1, beta2 = group["betas"]
        torch._foreach_lerp_(means, gradients, 1 - beta1)
        squares = torch._foreach_mul(gradients, gradients)
        signs = torch._foreach_sub(variances, squares)
        torch._foreach_sign_(signs)
        torch._foreach_addcmul_(variances, signs, squares, value=beta2 - 1)
        roots = torch._foreach_sqrt(variances)
        torch._foreach_add_(roots, group["eps"])
        torch._foreach_addcdiv_(parameters, means, roots, [-corrected_rate(group, state) for state in states])

    def _counted(self, group: Mapping[str, Any], parameter: Tensor) -> dict[str, Any]:
        """Return the state of a parameter with this step counted; create it before the first step."""
        state: dict[str, Any] = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)  # same form as in torch's optimisers, so checkpoints are alike
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.full_like(parameter, group["initial_accumulator_value"])
        state["step"] += 1
        return state


def corrected_rate(group: Mapping[str, Any], state: Mapping[str, Any]) -> float:
    """Return the learning rate corrected for the first steps; over sqrt(v) + eps it is the step of each number."""
    (beta1, beta2), count = group["betas"], float(state["step"])
    rate: float = float(group["lr"]) * math.sqrt(1 - beta2**count) / (1 - beta1**count)
    return rate


def _dense(parameter: Tensor) -> Tensor:
    gradient = parameter.grad
    assert gradient is not None  # chosen by the caller
    if gradient.layout != torch.strided:
        got = f"got a sparse gradient of a parameter {list(parameter.shape)}"
        remedy = "use nn.Embedding with sparse=False, and plain SGD with full_softmax_loss"
        raise BadInputError(f"Yogi requires dense gradients, {got}: {remedy}")
    return gradient


def _check_options(options: Mapping[str, Any]) -> None:
    for name in ("lr", "eps", "initial_accumulator_value"):
        _check(name, options[name])
    betas = options["betas"]
    if not isinstance(betas, Sequence) or len(betas) != 2:
        raise BadInputError(f"betas must be two numbers, such as (0.9, 0.999), got {betas!r:.80}")
    for beta in betas:
        _check("betas", beta, below=1)


def _check(name: str, value: object, below: float = math.inf) -> None:
    if isinstance(value, Tensor) and value.numel() == 1:
        value = value.item()  # torch allows a tensor as learning rate
    if not is_number(value) or not 0 <= value < below:
        expected = "a finite number of at least 0" if below == math.inf else f"numbers from 0 to below {below}"
        raise BadInputError(f"{name} must be {expected}, got {value!r:.80}")
