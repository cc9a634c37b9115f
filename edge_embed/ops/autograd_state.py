"""State of autograd around a forward pass: repeated by a backward pass, or part of a transform."""

import torch
from torch import Tensor


def is_recomputed() -> bool:
    """Return whether a backward pass runs: `torch.utils.checkpoint` repeats forward passes there, which have counted.

    False while ``torch.compile`` traces, because the caller of the graph is unknown then.
    """
    return not torch.compiler.is_compiling() and torch._C._current_graph_task_id() != -1


def is_transformed(*tensors: Tensor) -> bool:
    """Return whether a tensor belongs to a transform of ``torch.func``; such tensors must not leave the transform."""
    return any(torch._C._functorch.is_functorch_wrapped_tensor(tensor) for tensor in tensors)
