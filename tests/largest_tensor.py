"""Size of the largest tensor that an operator returns: a lower bound of the memory of a computation."""

from typing import Any

import torch


class LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
    """Mode that records in ``numel`` the number of elements of the largest result while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.numel = max(self.numel, tensor._nnz() if tensor.is_sparse else tensor.numel())
        return result
