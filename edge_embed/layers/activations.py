"""Modules of the functions of `edge_embed.ops.entmax`: probabilities that can be exactly zero.

    alpha = 1 + sigmoid(a)        a learned number a of each attention head, for `Entmax` with ``num_heads``

Source: "Adaptively Sparse Transformers" (Correia, Niculae and Martins, EMNLP 2019), section 3.
"""

import math

import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.ops import entmax as functions


class Sparsemax(nn.Module):
    """Module of `edge_embed.sparsemax` along ``dim``.

    Shape:
        scores ``[*]``, and an optional bool mask that broadcasts to them -> probabilities ``[*]``.
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return probabilities; False in ``mask`` excludes a score."""
        return functions.sparsemax(scores, self.dim, mask)

    def extra_repr(self) -> str:
        """Return the dimension."""
        return f"dim={self.dim}"


class Entmax15(Sparsemax):
    """Module of `edge_embed.entmax15` along ``dim``; shapes as `Sparsemax`."""

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return probabilities; False in ``mask`` excludes a score."""
        return functions.entmax15(scores, self.dim, mask)


class TopKSparsemax(nn.Module):
    """Module of `edge_embed.topk_sparsemax` with ``k`` along ``dim``; shapes as `Sparsemax`."""

    def __init__(self, k: int, dim: int = -1) -> None:
        super().__init__()
        if not isinstance(k, int) or isinstance(k, bool) or k < 1:
            raise BadInputError(f"k: got {k!r:.80}, expected an integer of at least 1")
        self.k, self.dim = k, dim

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return probabilities; False in ``mask`` excludes a score."""
        return functions.topk_sparsemax(scores, self.k, self.dim, mask)

    def extra_repr(self) -> str:
        """Return k and the dimension."""
        return f"k={self.k}, dim={self.dim}"


class Entmax(nn.Module):
    """Module of `edge_embed.entmax` with a fixed alpha, or with one that each attention head learns.

    Args:
        alpha: from 1 to 4. With ``num_heads``, where learning starts: above 1 and below 2.
        dim: dimension that sums to 1; the last one with ``num_heads``.
        num_heads: number H of attention heads of scores ``[*, H, T, S]``, each of which learns its alpha; None for a
            fixed one.

    Attributes:
        alpha_logit: parameter a ``[H]`` of learned alphas 1 + sigmoid(a); None if alpha is fixed.

    Shape:
        scores ``[*]``, or ``[*, H, T, S]`` with ``num_heads``, and an optional bool mask -> probabilities as scores.

    Raises:
        BadInputError: for an alpha out of its range, or a number of attention heads below 1 or other than
            that of the scores.
    """

    alpha_logit: nn.Parameter | None

    def __init__(self, alpha: float = 1.5, dim: int = -1, *, num_heads: int | None = None) -> None:
        super().__init__()
        functions.check_alpha(alpha)
        self.dim, self.num_heads, self._alpha = dim, num_heads, float(alpha)
        if num_heads is None:
            self.register_parameter("alpha_logit", None)
            return
        if not isinstance(num_heads, int) or isinstance(num_heads, bool) or num_heads < 1:
            raise BadInputError(f"num_heads: got {num_heads!r:.80}, expected an integer of at least 1, or None")
        if not 1 < alpha < 2:
            raise BadInputError(f"alpha: got {alpha!r:.80}, expected more than 1 and less than 2 for learned alphas")
        if dim != -1:
            raise BadInputError(f"dim: got {dim!r:.80}, expected -1 with num_heads: scores are [*, H, T, S]")
        self.alpha_logit = nn.Parameter(torch.full((num_heads,), math.log((alpha - 1) / (2 - alpha))))

    @property
    def alpha(self) -> float | Tensor:
        """The fixed alpha, or the learned ones, [H]."""
        return self._alpha if self.alpha_logit is None else 1 + self.alpha_logit.sigmoid()

    def forward(self, scores: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return probabilities; False in ``mask`` excludes a score."""
        alpha = self.alpha
        if not isinstance(alpha, Tensor):
            return functions.entmax(scores, alpha, self.dim, mask)
        if not isinstance(scores, Tensor) or scores.ndim < 3 or scores.shape[-3] != self.num_heads:
            got = f"shape {list(scores.shape)}" if isinstance(scores, Tensor) else f"{scores!r:.80}"
            raise BadInputError(
                f"scores: got {got}, expected [*, {self.num_heads}, T, S], with attention heads third from last"
            )
        return functions.entmax_unchecked(scores, alpha[:, None, None], mask)

    def extra_repr(self) -> str:
        """Return alpha or where it started, and the dimension or the number of attention heads."""
        return f"alpha={self._alpha:g}, " + (
            f"dim={self.dim}" if self.num_heads is None else f"num_heads={self.num_heads}"
        )
