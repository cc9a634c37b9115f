"""The largest tensor that any operator makes: what a computation costs in memory at the least."""

from typing import Any

import torch


class LargestTensor(torch.utils._python_dispatch.TorchDispatchMode):
    """While active, the numbers in the largest result so far are ``numel``."""

    def __init__(self) -> None:
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in result if isinstance(result, tuple | list) else [result]:
            if isinstance(tensor, torch.Tensor):
                self.numel = max(self.numel, tensor._nnz() if tensor.is_sparse else tensor.numel())
        return result
