"""A program on another device: its weights, and the tensors that its graph makes.

A saved model holds the device of tracing: an initial state of zeros, for example, is made on the CPU.
"""

from copy import deepcopy
from typing import Any

import torch
from torch.fx.node import Node, map_aggregate

from edge_embed.program.program import ProgramModule


def on_device(module: ProgramModule, device: torch.device) -> ProgramModule:
    """Return a copy whose weights are on a device, and whose operators make their tensors there."""
    moved = deepcopy(module).to(device)
    for node in moved.graph.nodes:
        if node.op == "call_function":
            _move(node, device)
    return moved


def _move(node: Node, device: torch.device) -> None:
    """Replace the devices among the arguments of a node, and give one to an operator that takes no tensor."""

    def there(value: Any) -> Any:
        return device if isinstance(value, torch.device) else value

    node.args = map_aggregate(node.args, there)
    node.kwargs = map_aggregate(node.kwargs, there)
    if _is_factory(node.target):
        node.kwargs = {**node.kwargs, "device": device}


def _is_factory(operator: Any) -> bool:
    """Return whether an operator, such as ``aten.arange``, makes a tensor on a device from no other tensor."""
    schema = getattr(operator, "_schema", None)
    taken = {} if schema is None else {argument.name: str(argument.type) for argument in schema.arguments}
    return "device" in taken and not any("Tensor" in kind for kind in taken.values())
