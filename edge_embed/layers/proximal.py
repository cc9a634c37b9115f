"""`ProximalOptimizer`: the step after each step of the optimiser that makes transforms of ANT layers sparse.

    T = max(T - step * penalty, 0)          (eq. 3; on all rows, after every step)

By default ``step`` is the factor that the optimiser multiplies a gradient with: its learning rate, or the adaptive rate
of each number. A number with small gradients then shrinks as much faster as it would be trained faster, and rows that
never occur become empty. With ``threshold="plain"`` the step is the learning rate of any optimiser.

Source: "Anchor & Transform: Learning Sparse Embeddings for Large Vocabularies" (ICLR 2021), Algorithm 1, whose step is
the learning rate. The adaptive step is from the authors' released code.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Adagrad, NAdam, Optimizer, RAdam, RMSprop
from torch.utils.hooks import RemovableHandle

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.arguments import is_number
from edge_embed.layers.yogi import Yogi, corrected_rate

Step = Tensor | float
Threshold = Literal["adaptive", "plain"]


@suggests_keywords
class ProximalOptimizer(Optimizer):
    """Wraps an optimiser and makes the transforms of every `ANTEmbedding` sparse: a proximal step follows each step.

    Use it in place of the wrapped optimiser. Parameter groups, state and ``state_dict`` are those of the wrapped
    optimiser. Checkpoints therefore fit both, and learning-rate schedulers accept both.

    Choose ``penalty`` together with the optimiser: the threshold follows the optimiser's step, and the penalty has the
    units of the gradient of the loss. An adaptive optimiser with a tiny ``eps`` in its denominator, such as Adam with
    1e-8, makes huge steps for gradients of zero. Rows that have not occurred yet are then emptied at once. Use
    `edge_embed.Yogi` (eps 1e-3), which the paper used, or ``torch.optim.Adam(..., eps=1e-3)``.

    Useful penalties span several powers of ten. Begin at 1e-5, watch ``(layer.transform > 0).float().mean()``, and
    raise the penalty. A penalty that is too high empties the table within a few steps, and the loss then stays
    constant. `edge_embed.PenaltySchedule` raises the penalty gradually.

    Args:
        optimizer: any optimiser over the parameters of the layers and of the rest of the model.
        layers: a model, or several modules; every trainable `ANTEmbedding` in them takes part.
        penalty: lambda_2 of eq. (1), the weight of the sum of T. With 0 the step only keeps T >= 0. The attribute can
            be changed while training.
        unpenalized: for each layer, entries of its transform without a penalty, the zeros of S(G) in eq. (32), as
            int64 [2, E] of rows and anchors. `edge_embed.layers.pairs.entries` returns those of related tokens.
        threshold: ``"adaptive"`` follows the step of each number, as in the authors' code. ``"plain"`` is the learning
            rate times the penalty for all numbers, as in Algorithm 1. Rows that never occur then shrink as other rows
            do, and with adaptive optimisers useful penalties are larger by some powers of ten.

    Raises:
        BadInputError: if ``optimizer`` is not an optimiser or is already a `ProximalOptimizer`; if there is no
            trainable `ANTEmbedding`, or its transform is not among the optimiser's parameters; if entries belong to
            another layer or lie outside its transform; if the threshold is unknown; if the penalty is negative or not
            finite, also when it is set later.
    """

    optimizer: Optimizer
    layers: list[ANTEmbedding]
    unpenalized: dict[ANTEmbedding, Tensor]
    threshold: Threshold = "adaptive"

    def __init__(
        self,
        optimizer: Optimizer,
        layers: nn.Module | Iterable[nn.Module],
        penalty: float,
        unpenalized: Mapping[ANTEmbedding, Tensor] | None = None,
        *,
        threshold: Threshold = "adaptive",
    ) -> None:
        if not isinstance(optimizer, Optimizer) or isinstance(optimizer, ProximalOptimizer):
            expected = (
                "expected one of torch.optim or edge_embed.Yogi, as in ProximalOptimizer(optimizer, model, penalty)"
            )
            raise BadInputError(f"optimizer: got a {type(optimizer).__name__}, {expected}")
        found = _ant_layers(layers)
        if unpenalized is not None and not isinstance(unpenalized, Mapping):
            expected = "expected the entries of each layer, such as {layer: entries}"
            raise BadInputError(f"unpenalized: got a {type(unpenalized).__name__}, {expected}")
        entries = {layer: _checked_entries(layer, given, found) for layer, given in (unpenalized or {}).items()}
        if threshold not in ("adaptive", "plain"):
            raise BadInputError(f'threshold must be "adaptive" or "plain", got {threshold!r:.80}')
        state = {"optimizer": optimizer, "layers": found, "penalty": penalty, "unpenalized": entries}
        self.__setstate__({**state, "threshold": threshold})
        if not self.layers:
            raise BadInputError(
                "layers: got no trainable ANTEmbedding; give the model that contains it, before freezing"
            )
        held = {id(parameter) for _, parameter in self._held()}
        if any(layer.transform.requires_grad and id(layer.transform) not in held for layer in self.layers):
            raise BadInputError("the transform of an ANTEmbedding is not among the optimiser's parameters: add it")

    @property
    def penalty(self) -> float:
        """The penalty lambda_2 of eq. (1)."""
        return self._penalty

    @penalty.setter
    def penalty(self, penalty: float) -> None:
        self._penalty = checked_penalty(penalty)

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """Parameter groups of the wrapped optimiser."""
        return self.optimizer.param_groups

    @property
    def state(self) -> Mapping[Tensor, Any]:  # type: ignore[override]
        """State of the wrapped optimiser."""
        return self.optimizer.state

    @property
    def defaults(self) -> dict[str, Any]:  # type: ignore[override]
        """Defaults of the wrapped optimiser."""
        return self.optimizer.defaults

    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Run one step of the wrapped optimiser, then the proximal step.

        Args:
            closure: function that computes the loss again and returns it, as for other optimisers.

        Returns:
            The loss of ``closure``, or None without one.
        """
        loss: float | None = self.optimizer.step(closure) if closure is not None else self.optimizer.step()
        self.shrink()
        return loss

    @torch.no_grad()
    def shrink(self) -> None:
        """Run only the proximal step, on transforms with a gradient: the optimiser has not moved the others."""
        layers = {id(layer.transform): layer for layer in self.layers if not layer.frozen}
        for group, parameter in self._held():
            if id(parameter) not in layers or parameter.grad is None:
                continue
            free = self._free(layers[id(parameter)])
            kept = None if free is None else parameter[free]
            if self.penalty > 0:
                step = group["lr"] if self.threshold == "plain" else _step(self.optimizer, group, parameter)
                parameter.sub_(step, alpha=self.penalty)
                if free is not None and kept is not None:
                    parameter[free] = kept
            parameter.clamp_(min=0)

    def _free(self, layer: ANTEmbedding) -> tuple[Tensor, Tensor] | None:
        """Return rows and anchors of the entries of a transform that are not penalised, or None without such ones.

        To index by no entries would make an accelerator wait.
        """
        if layer not in self.unpenalized:
            return None
        rows, anchors = self.unpenalized[layer].to(layer.transform.device)
        within = anchors < layer.transform.shape[1]  # anchors may have been removed since
        return rows[within], anchors[within]

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Clear the gradients of all parameters, or set them to zero.

        Args:
            set_to_none: whether gradients become None instead of zero.
        """
        self.optimizer.zero_grad(set_to_none)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the wrapped optimiser."""
        return self.optimizer.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state of the wrapped optimiser."""
        self.optimizer.load_state_dict(state_dict)

    def register_state_dict_pre_hook(self, *hook: Any, **options: Any) -> RemovableHandle:
        """Register a hook of the wrapped optimiser, which is the hook's argument."""
        return self.optimizer.register_state_dict_pre_hook(*hook, **options)

    def register_state_dict_post_hook(self, *hook: Any, **options: Any) -> RemovableHandle:
        """Register a hook of the wrapped optimiser, which is the hook's argument."""
        return self.optimizer.register_state_dict_post_hook(*hook, **options)

    def register_load_state_dict_pre_hook(self, *hook: Any, **options: Any) -> RemovableHandle:
        """Register a hook of the wrapped optimiser, which is the hook's argument."""
        return self.optimizer.register_load_state_dict_pre_hook(*hook, **options)

    def register_load_state_dict_post_hook(self, *hook: Any, **options: Any) -> RemovableHandle:
        """Register a hook of the wrapped optimiser, which is the hook's argument."""
        return self.optimizer.register_load_state_dict_post_hook(*hook, **options)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group to the wrapped optimiser."""
        self.optimizer.add_param_group(param_group)

    def __getstate__(self) -> dict[str, Any]:
        names = ("optimizer", "layers", "penalty", "unpenalized", "threshold")
        return {name: getattr(self, name) for name in names}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.penalty = state["penalty"]  # checks it; torch's __setstate__ would write __dict__ and bypass the property
        super().__setstate__({name: value for name, value in state.items() if name != "penalty"})

    def _held(self) -> Iterator[tuple[dict[str, Any], Tensor]]:
        """Yield every parameter of the optimiser with its group."""
        for group in self.param_groups:
            for parameter in group["params"]:
                yield group, parameter


def checked_penalty(penalty: float, name: str = "penalty") -> float:
    """Return ``penalty`` as a float; raise `BadInputError` unless it is a finite number of at least 0."""
    if not is_number(penalty) or not 0 <= penalty <= torch.finfo(torch.float32).max:
        raise BadInputError(f"{name} must be a finite number of at least 0, got {penalty!r:.80}")
    return float(penalty)


def check_proximal(optimizer: object) -> None:
    """Raise `BadInputError` unless ``optimizer`` is a `ProximalOptimizer`."""
    if not isinstance(optimizer, ProximalOptimizer):
        expected = "expected an edge_embed.ProximalOptimizer, which has the penalty; wrap the optimiser"
        raise BadInputError(f"optimizer: got a {type(optimizer).__name__}, {expected}")


def _ant_layers(layers: nn.Module | Iterable[nn.Module]) -> list[ANTEmbedding]:
    modules = list(layers) if isinstance(layers, Iterable) and not isinstance(layers, nn.Module) else [layers]
    wrong = {type(module).__name__ for module in modules if not isinstance(module, nn.Module)}
    if wrong:
        raise BadInputError(f"layers: got a {' and a '.join(sorted(wrong))}, expected the model, or layers of it")
    found = {id(layer): layer for module in modules for layer in module.modules() if isinstance(layer, ANTEmbedding)}
    return [layer for layer in found.values() if not layer.frozen]


def _checked_entries(layer: ANTEmbedding, entries: Tensor, layers: Iterable[nn.Module]) -> Tensor:
    if not any(layer is one for one in layers):
        raise BadInputError("unpenalized: got entries of another layer, expected a trainable ANTEmbedding of the model")
    size = torch.tensor(layer.transform.shape).unsqueeze(-1)
    if not isinstance(entries, Tensor) or entries.dtype != torch.int64 or entries.ndim != 2 or len(entries) != 2:
        raise BadInputError(f"unpenalized: got {entries!r:.80}, expected rows and anchors as int64 [2, E]")
    if entries.numel() and ((entries < 0) | (entries >= size.to(entries.device))).any():
        raise BadInputError(f"unpenalized: got entries outside a transform of {list(layer.transform.shape)}")
    return entries.to(layer.transform.device)


def _step(optimizer: Optimizer, group: Mapping[str, Any], parameter: Tensor) -> Step:
    """Return the factor that ``optimizer`` has just multiplied a gradient with: one number or a tensor."""
    state = optimizer.state[parameter]
    for kind, step in _ADAPTIVE.items():
        if isinstance(optimizer, kind):
            return step(group, state)
    if "exp_avg_sq" in state and "betas" in group:  # Adam, AdamW and optimisers derived from them
        return _adam(group, state)
    rate: Step = group["lr"]
    return rate


def _denominator(group: Mapping[str, Any], state: Mapping[str, Any]) -> Tensor:
    """Return the root of the mean square of the gradients, corrected for the bias of the first steps, plus eps."""
    square = state.get("max_exp_avg_sq", state["exp_avg_sq"])
    mean: Tensor = square / (1 - group["betas"][1] ** float(state["step"]))
    return mean.sqrt_().add_(group["eps"])


def _adam(group: Mapping[str, Any], state: Mapping[str, Any]) -> Tensor:
    rate: Step = group["lr"] / (1 - group["betas"][0] ** float(state["step"]))
    return rate / _denominator(group, state)


def _nadam(group: Mapping[str, Any], state: Mapping[str, Any]) -> Tensor:
    rate: Step = group["lr"]  # its factors of gradient and momentum sum to about one
    return rate / _denominator(group, state)


def _radam(group: Mapping[str, Any], state: Mapping[str, Any]) -> Step:
    """Return a plain rate before the variance of the mean square is defined (rho <= 5), then an adaptive one."""
    (beta1, beta2), step = group["betas"], float(state["step"])
    rate: Step = group["lr"] / (1 - beta1**step)
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * step * beta2**step / (1 - beta2**step)
    if length <= 5:
        return rate
    ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
    root: Tensor = state["exp_avg_sq"].sqrt() + group["eps"]
    rate = rate * (ratio * (1 - beta2**step)) ** 0.5
    return rate / root


def _adagrad(group: Mapping[str, Any], state: Mapping[str, Any]) -> Tensor:
    rate: Step = group["lr"] / (1 + (float(state["step"]) - 1) * group["lr_decay"])
    root: Tensor = state["sum"].sqrt() + group["eps"]
    return rate / root


def _rmsprop(group: Mapping[str, Any], state: Mapping[str, Any]) -> Tensor:
    square: Tensor = state["square_avg"]
    if group["centered"]:
        square = square - state["grad_avg"].square()
    root: Tensor = square.sqrt() + group["eps"]
    rate: Step = group["lr"]
    return rate / root


def _yogi(group: Mapping[str, Any], state: Mapping[str, Any]) -> Tensor:
    root: Tensor = state["exp_avg_sq"].sqrt() + group["eps"]
    return corrected_rate(group, state) / root


_ADAPTIVE: dict[type[Optimizer], Callable[[Mapping[str, Any], Mapping[str, Any]], Step]] = {
    NAdam: _nadam,
    RAdam: _radam,
    Adagrad: _adagrad,
    RMSprop: _rmsprop,
    Yogi: _yogi,
}
