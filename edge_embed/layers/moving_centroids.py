"""`MovingCentroids`: centroids of DPQ-VQ as moving averages of the queries that chose them.

The DPQ paper names this method (sec. 2.3, after Kaiser et al. 2018) as the alternative to L_reg for training centroids.
With the decay g, the number n_k of queries of a step that chose centroid k, and e = 1e-5:

    N_k <- g N_k + (1 - g) n_k
    M_k <- g M_k + (1 - g) (sum of these queries)
    V_k  = M_k / N'_k,    N'_k = (N_k + e) / (N + K e) * N,    N = sum_k N_k

Source of the formulas: van den Oord, Vinyals and Kavukcuoglu, "Neural Discrete Representation Learning" (2017),
appendix A.1. The Laplace smoothing N'_k is from its released code. The start N_k = 1 and M_k = V_k is ours: with
N_k = 0, the first query to choose a centroid would move it far away.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import torch
from torch import Tensor, distributed, nn

_SMOOTHING = 1e-5


class MovingCentroids(nn.Module):
    """The averages of one table, stored in its state_dict as ``count`` [G, K] and ``sum`` [G, K, s], at least float32.

    The centroids move at the beginning of the next step (`move`), because a backward pass that recomputes the step must
    find them unchanged.

    Args:
        value: the centroids [G, K, s], which set dtype and device.
        decay: g, between 0 and 1.
    """

    count: Tensor
    sum: Tensor

    def __init__(self, value: Tensor, decay: float) -> None:
        super().__init__()
        self.decay = decay
        wide = torch.promote_types(value.dtype, torch.float32)
        self.register_buffer("count", torch.ones_like(value[..., 0], dtype=wide))
        self.register_buffer("sum", value.detach().to(wide, copy=True))
        self._open_step: Tensor | None = None

    @torch.no_grad()
    def reset(self, value: Tensor) -> None:
        """Restart the averages at centroids [G, K, s]."""
        self.count.fill_(1)
        self.sum.copy_(value)

    @torch.no_grad()
    def move(self, value: Tensor) -> None:
        """Write the centroids after all steps so far into ``value`` [G, K, s]; a second call changes nothing."""
        total = self.count.sum(-1, keepdim=True)  # [G, 1]
        share = (self.count + _SMOOTHING) / (total + self.count.shape[-1] * _SMOOTHING)
        value.copy_(self.sum / (share * total).unsqueeze(-1))

    @contextmanager
    def one_step(self) -> Iterator[None]:
        """Combine all queries given to `follow` inside this context into one step."""
        self._open_step = torch.zeros_like(torch.cat((self.sum, self.sum[..., :1]), -1))
        try:
            yield
            self._average(self._open_step)
        finally:
            self._open_step = None

    @torch.no_grad()
    def follow(self, query: Tensor, code: Tensor, counts: Tensor) -> None:
        """Add queries to the averages, together with those of all processes if torch.distributed is initialised.

        Args:
            query: [B, D s].
            code: codes of the centroids that the queries chose, int64 [D, B].
            counts: weight of each query, integers [B].
        """
        (num_groups, _), (stored_groups, num_codes, width) = code.shape, self.sum.shape
        groups = query.to(self.sum.dtype).unflatten(-1, (num_groups, width)).transpose(0, 1)  # [D, B, s]
        terms = torch.cat((groups, torch.ones_like(groups[..., :1])), -1) * counts.unsqueeze(-1)  # [D, B, s + 1]
        if stored_groups > 1:
            code = code + num_codes * torch.arange(num_groups, device=code.device).unsqueeze(-1)
        totals = terms.new_zeros(stored_groups * num_codes, width + 1)
        totals = totals.index_add(0, code.reshape(-1), terms.reshape(-1, width + 1)).unflatten(0, (stored_groups, -1))
        if self._open_step is None:
            self._average(totals)
        else:
            self._open_step += totals

    @torch.no_grad()
    def _average(self, totals: Tensor) -> None:
        """Average the sums and counts [G, K, s + 1] of one step; an empty one, or one not finite, changes nothing."""
        if distributed.is_available() and distributed.is_initialized():
            distributed.all_reduce(totals)
        counts, is_finite = totals[..., -1], totals.isfinite().all()
        step = (1 - self.decay) * ((counts.sum() > 0) & is_finite).to(counts.dtype)
        self.count.lerp_(counts, step)
        self.sum.lerp_(torch.where(is_finite, totals[..., :-1], 0), step)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Apply ``.to(device)`` and ``.double()``, but not ``.half()``, which would round away small increments."""
        before: dict[str, Any] = dict(self._buffers)
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, old in before.items():
            moved: Any = self._buffers[name]
            if moved.dtype.itemsize < old.dtype.itemsize:
                self._buffers[name] = old.to(moved.device, torch.promote_types(moved.dtype, torch.float32))
        return self

    def extra_repr(self) -> str:
        """Return the decay for ``print(model)``."""
        return f"decay={self.decay}"
