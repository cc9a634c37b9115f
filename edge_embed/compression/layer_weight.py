"""The weight of a layer, even if it is computed from other parameters in every call of the layer.

``torch.nn.utils.parametrizations`` keeps these parameters beside the layer. The older ``weight_norm`` and
``spectral_norm`` of ``torch.nn.utils`` compute the weight in a hook.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.spectral_norm import SpectralNorm
from torch.nn.utils.weight_norm import WeightNorm


def weight_of(layer: nn.Module) -> Tensor:
    """Return the weight of a layer in eval mode; the mode of the layer itself does not change."""
    norm = _norm(layer)
    if norm is None and not parametrize.is_parametrized(layer, "weight"):
        return layer.weight  # type: ignore[return-value]
    training = {module: module.training for module in layer.modules()}
    layer.eval()  # spectral_norm changes its vectors in training mode
    try:
        with torch.no_grad():
            weight: Any = layer.weight if norm is None else norm(layer)
    finally:
        for module, mode in training.items():
            module.training = mode
    return weight.detach()  # type: ignore[no-any-return]


def is_computed(layer: nn.Module) -> bool:
    """Return whether the weight of a layer is computed from other parameters."""
    return _norm(layer) is not None or parametrize.is_parametrized(layer, "weight")


def hooks_of(layer: nn.Module) -> list[Any]:
    """Return the hooks that change inputs or outputs of a layer, besides those that compute its weight."""
    before = [hook for hook in layer._forward_pre_hooks.values() if not _is_norm(hook)]
    return [*before, *layer._forward_hooks, *layer._backward_hooks, *layer._backward_pre_hooks]


def _norm(layer: nn.Module) -> Callable[[nn.Module], Any] | None:
    """Return the function that computes the weight, if a hook does."""
    hook: Any = next(filter(_is_norm, layer._forward_pre_hooks.values()), None)
    if isinstance(hook, SpectralNorm):
        return lambda layer: hook.compute_weight(layer, do_power_iteration=False)
    return None if hook is None else hook.compute_weight


def _is_norm(hook: object) -> bool:
    return isinstance(hook, WeightNorm | SpectralNorm) and hook.name == "weight"
