"""Check against a checkpoint with two different weights for two names of one weight in the model."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError


def check_tied(module: nn.Module, stored: Mapping[str, Tensor]) -> None:
    """Compare the weights of a module with the stored ones: of two names of one weight, it has the later one.

    Args:
        module: module after ``load_state_dict``.
        stored: weights given to it, by the names of the module.

    Raises:
        BadInputError: if a weight with several names was stored with different numbers; the message has both names.
    """
    own = {name: tensor for name, tensor in module.state_dict().items() if name in stored}
    for names in _in_one_memory(own):
        for lost in names:
            if _is_same(stored[lost].to(own[lost].dtype), own[lost]):
                continue
            other = next((name for name in names if name != lost and _overlap(own[lost], own[name])), None)
            if other is not None:
                raise BadInputError(
                    f"contains different weights {lost} and {other}, which the model of --model ties "
                    f"({_difference(stored[lost], stored[other])}): return a model that does not tie them, or "
                    "remove the wrong one from the checkpoint"
                )


def _in_one_memory(tensors: Mapping[str, Tensor]) -> list[list[str]]:
    """Return the names of tensors that share memory."""
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
    """Return whether numbers are equal; NaN equals NaN."""
    return torch.equal(one, other) or (
        one.shape == other.shape and bool(((one == other) | (one.isnan() & other.isnan())).all())
    )


def _difference(one: Tensor, other: Tensor) -> str:
    if one.shape != other.shape:
        return f"{list(one.shape)} and {list(other.shape)}"
    differing = one != other
    largest = (one.double() - other.double())[differing].abs().max()
    return f"{int(differing.sum()):,} of {one.numel():,} numbers differ, by up to {largest:.3g}"
