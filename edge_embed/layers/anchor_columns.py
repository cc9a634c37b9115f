"""Add and remove anchors of one ANT table in stack order: removed anchors can be restored unchanged.

An anchor is removed together with its row of A, its column of T and the optimiser's state of these numbers.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from edge_embed.layers.ant import ANTEmbedding, draw
from edge_embed.layers.ant_mixture import ANTMixtureEmbedding

_AXIS = {"anchors": 0, "transform": 1}  # axis of each parameter that counts anchors
_VALUE = "parameter"  # key of the parameter itself, beside the keys of the optimiser's state


class AnchorColumns:
    """Resizes the anchors of ``layer``, which ``optimizer`` trains. Each change creates new parameters."""

    def __init__(self, layer: ANTEmbedding, optimizer: Optimizer) -> None:
        self.layer, self.optimizer = layer, optimizer
        self._off: dict[str, dict[str, Tensor]] = {name: {} for name in _AXIS}  # removed anchors, in stack order

    @property
    def learns(self) -> bool:
        """Return whether the number of anchors may change: false for frozen layers, fixed matrices and mixtures."""
        layer = self.layer
        learns = not layer.frozen and layer.transform.requires_grad and layer.anchors.requires_grad
        return learns and not isinstance(layer, ANTMixtureEmbedding)

    def resize(self, count: int) -> bool:
        """Remove, restore or draw anchors until there are ``count``. Return whether the number has changed."""
        if count == self.layer.num_anchors:
            return False
        for name in _AXIS:
            self._resize(name, count)
        self.layer.num_anchors = count
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return the number of anchors and the removed anchors."""
        return {"num_anchors": self.layer.num_anchors, "off": {name: dict(part) for name, part in self._off.items()}}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Resize to the saved number of anchors and restore the removed ones."""
        self.resize(state_dict["num_anchors"])
        self._off = table_state(state_dict)["off"]

    def _resize(self, name: str, count: int) -> None:
        old: nn.Parameter = getattr(self.layer, name)
        axis, off, state = _AXIS[name], self._off[name], self.optimizer.state.get(old, {})
        parts = {_VALUE: old.detach()} | {key: tensor for key, tensor in state.items() if _is_like(tensor, old)}
        total = max(count, old.shape[axis] + (off[_VALUE].shape[axis] if off else 0))
        self._off[name] = {}
        for key, tensor in parts.items():
            stack = torch.cat((tensor, off[key].to(tensor)), axis) if key in off else tensor
            stack = torch.cat((stack, self._fresh(name, key, stack, total)), axis)
            parts[key] = stack.narrow(axis, 0, count).clone()
            self._off[name][key] = stack.narrow(axis, count, total - count).clone()
        new = nn.Parameter(parts.pop(_VALUE), requires_grad=old.requires_grad)
        self._hand_over(old, new, {**state, **parts})
        setattr(self.layer, name, new)

    def _fresh(self, name: str, key: str, stack: Tensor, total: int) -> Tensor:
        """Return the part that ``stack`` lacks up to ``total`` anchors.

        New parameters are drawn above zero; new optimiser state has the optimiser's initial value.
        A search ends less reliably with new anchors drawn around zero (measured in `AnchorSearch`).
        """
        shape = list(stack.shape)
        shape[_AXIS[name]] = total - shape[_AXIS[name]]
        if key != _VALUE:
            squares = key in ("exp_avg_sq", "sum")  # Yogi and Adagrad begin with a value; others begin with zeros
            return stack.new_full(shape, self._group(name).get("initial_accumulator_value", 0.0) if squares else 0.0)
        fresh = draw(stack.new_empty(shape), self.layer.num_embeddings if name == "transform" else total).abs_()
        if name == "transform" and self.layer.padding_idx is not None:
            fresh[self.layer.padding_idx] = 0
        return fresh

    def _group(self, name: str) -> dict[str, Any]:
        """Return the parameter group that holds a parameter, or an empty dict if no group does."""
        parameter = getattr(self.layer, name)
        holding = (group for group in self.optimizer.param_groups if any(one is parameter for one in group["params"]))
        return next(holding, {})

    def _hand_over(self, old: nn.Parameter, new: nn.Parameter, state: dict[str, Any]) -> None:
        for group in self.optimizer.param_groups:
            group["params"][:] = [new if one is old else one for one in group["params"]]
        if self.optimizer.state.pop(old, None) is not None:
            self.optimizer.state[new] = state


def table_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a state of `AnchorColumns.state_dict`; raise `KeyError` or `TypeError` for anything else."""
    return {"num_anchors": state["num_anchors"], "off": {name: dict(state["off"][name]) for name in _AXIS}}


def _is_like(tensor: object, parameter: Tensor) -> bool:
    """Return whether an entry of the state is a tensor with one number for each number of the parameter."""
    return isinstance(tensor, Tensor) and tensor.shape == parameter.shape
