"""Refuses a checkpoint with two different weights where the model has one under two names."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError


def check_tied(module: nn.Module, stored: Mapping[str, Tensor]) -> None:
    """Compare what a module has taken with what was stored: of two names of one weight, the later one is there.

    Args:
        module: after ``load_state_dict``.
        stored: what that got, by the names of the module.

    Raises:
        BadInputError: if a weight of several names was stored with different numbers; both are named.
    """
    own = {name: tensor for name, tensor in module.state_dict().items() if name in stored}
    for names in _in_one_memory(own):
        for lost in names:
            if _is_same(stored[lost].to(own[lost].dtype), own[lost]):
                continue
            other = next((name for name in names if name != lost and _overlap(own[lost], own[name])), None)
            if other is not None:
                raise BadInputError(
                    f"holds different weights as {lost} and {other}, which are one weight in the model of --model "
                    f"({_difference(stored[lost], stored[other])}): make a model that does not tie them, or save the "
                    "checkpoint without the one that is not meant"
                )


def _in_one_memory(tensors: Mapping[str, Tensor]) -> list[list[str]]:
    """Names of tensors that share a memory, or parts of one."""
    memories: dict[int, list[str]] = {}
    for name, tensor in tensors.items():
        if tensor.layout is torch.strided and tensor.device.type != "meta" and tensor.numel():
            memories.setdefault(tensor.untyped_storage().data_ptr(), []).append(name)
    return [names for names in memories.values() if len(names) > 1]


def _overlap(one: Tensor, other: Tensor) -> bool:
    return one.data_ptr() < _end(other) and other.data_ptr() < _end(one)


def _end(tensor: Tensor) -> int:
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr() + (last + 1) * tensor.element_size()


def _is_same(one: Tensor, other: Tensor) -> bool:
    """Whether numbers are equal, where NaN equals NaN."""
    return torch.equal(one, other) or (
        one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())
    )


def _difference(one: Tensor, other: Tensor) -> str:
    if one.shape != other.shape:
        return f"{list(one.shape)} and {list(other.shape)}"
    differing = one != other
    largest = (one.double() - other.double())[differing].abs().max()
    return f"{int(differing.sum()):,} of {one.numel():,} numbers differ, by up to {largest:.3g}"
