"""Base classes of layers that hold stored numbers as they are."""

from collections.abc import Callable
from typing import Self

from torch import Tensor

from edge_embed.layers.table import CompressedEmbedding, Memory


class StoredNumbers(CompressedEmbedding):
    """Layer whose buffers are numbers of a packed table, which keep their dtype."""

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Apply ``.to(device)``. A new dtype, as by ``.half()``, applies to rows; stored numbers stay the same."""
        stored = {name: (tensor, tensor.dtype) for name, tensor in self._buffers.items() if tensor is not None}
        super()._apply(fn, recurse)
        for name, (tensor, dtype) in stored.items():
            moved = self._buffers[name]
            if moved is not None and moved.dtype != dtype:
                self._buffers[name] = tensor.to(moved.device)
        return self


class StoredEmbedding(StoredNumbers):
    """Frozen layer whose buffers are the arrays of a packed table, and which is not trainable."""

    @property
    def frozen(self) -> bool:
        """Always True: the layer has no trainable parameters."""
        return True

    def freeze(self) -> Self:
        """Return the layer itself, which is always frozen."""
        return self

    def training_rows(self, own: Tensor, counts: Tensor, update: bool = True, memory: Memory | None = None) -> Tensor:
        """Raise, because a frozen table has no training rows.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError
