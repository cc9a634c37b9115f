"""`ANTMixtureEmbedding`, an embedding table trained as several sets of anchors, each with its own transform.

    E = sum_m mix(T_m) A_m        T_m >= 0 [n, A_m], A_m anchors [A_m, d]; mix: softmax over each row, or none

Source: "Anchor & Transform: Learning Sparse Embeddings for Large Vocabularies" (ICLR 2021), appendix E.
`edge_embed.ops.ant_mixture` holds the arithmetic and names our additions.
"""

from collections.abc import Sequence
from typing import Any, Self

import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.layers.ant import ANTEmbedding
from edge_embed.layers.factorization import checked_numbers
from edge_embed.ops import ant_mixture
from edge_embed.ops.operators import TableOperators
from edge_embed.packed.ant import PackedANT
from edge_embed.packed.packed_form import check_form


@suggests_keywords
class ANTMixtureEmbedding(ANTEmbedding):
    """`ANTEmbedding` with several sets of anchors, whose transforms can be mixed by a softmax.

    ``anchors`` [A, d] and ``transform`` [n, A] hold the sets side by side, with A = A_1 + ... + A_M.
    ``layer.anchors.split(layer.set_sizes)`` returns A_1 to A_M. Initialise the sets with
    ``start_from(vectors=torch.cat(...))``, and train with `edge_embed.ProximalOptimizer` as for `ANTEmbedding`.

    The layer is packed, saved and exported as an ANT table with the same rows, one set and no softmax. The packed form
    of a softmax stores one weight for each entry of a transform above the smallest of its row and set. It also stores
    one weight for each row and set, and M additional anchors. Dense transforms therefore need all n A weights:
    ``to_packed().nbytes`` returns their size. ``freeze("float16")`` and ``freeze("int8")`` make the weights smaller.

    Args:
        num_embeddings: number of rows n.
        embedding_dim: width d of a row.
        set_sizes: A_1 ... A_M, the anchors of each set; the paper's classifiers had 5 in each.
        mixing: ``"softmax"`` over each row of each T_m. ``"linear"`` is the sum of T_m A_m, which equals one
            `ANTEmbedding` with all anchors. ``"sparsemax"``, which is not in the paper, is like softmax with weights
            that become exactly zero. Train it with a penalty of 0, because zeros of T_m also have equal weights.
        padding_idx: id of the padding row, which is exactly zero and gets no gradient.
        device: as for ``nn.Embedding``.
        dtype: as for ``nn.Embedding``; export requires float32 or float16.

    Shape:
        ids of any integer dtype and any shape ``(*)``, 0-d and empty included -> ``(*, d)``.

    Raises:
        BadInputError: for impossible sizes, an unknown mixing, or ids that are not integers.
        IdOutOfRangeError: for ids below 0 or at least n (on an accelerator, its own gather asserts).
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        set_sizes: Sequence[int],
        mixing: ant_mixture.Mixing = "softmax",
        padding_idx: int | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        if not isinstance(set_sizes, Sequence) or not set_sizes:
            raise BadInputError(f"set_sizes must be the size of each set, such as (10, 20), got {set_sizes!r:.80}")
        ant_mixture.check_mixing(mixing)
        sizes = checked_numbers("set_sizes", set_sizes, len(set_sizes))
        super().__init__(num_embeddings, embedding_dim, sum(sizes), padding_idx, device, dtype)
        self.set_sizes, self.mixing = sizes, mixing

    def start_from(self, anchor_ids: Tensor | None = None, vectors: Tensor | None = None) -> Self:
        """Initialise training from known anchors, as `ANTEmbedding.start_from`.

        Args:
            anchor_ids: only for a linear mixture: with a softmax no row equals one anchor.
            vectors: anchors of all sets, float [A, d].

        Returns:
            The layer itself.

        Raises:
            BadInputError: as for `ANTEmbedding.start_from`, and for ``anchor_ids`` in another mixture.
        """
        if anchor_ids is not None and self.mixing != "linear":
            raise BadInputError(f"anchor_ids: got ids for a {self.mixing} mixture, expected none; give only vectors")
        return super().start_from(anchor_ids, vectors)

    @classmethod
    def from_packed(cls, packed: PackedANT) -> Self:
        """Return a frozen layer with a copy of the arrays of ``packed``: a linear mixture of one set.

        Raises:
            BadInputError: if ``packed`` is a table of another method.
        """
        check_form(packed, PackedANT)
        sizes, padding_idx = packed.anchors.shape[:1], packed.padding_idx
        layer = cls(packed.num_embeddings, packed.embedding_dim, sizes, "linear", padding_idx, device="meta")
        layer._become_frozen(packed)
        return layer

    @torch.no_grad()
    def _linear_form(self) -> tuple[Tensor, Tensor]:
        return ant_mixture.linear_form(self.transform, self.anchors, self.set_sizes, self.mixing)

    @property
    def _stored_anchors(self) -> int:
        return self.num_anchors + (len(self.set_sizes) if self.mixing == "softmax" else 0)

    def _noted(self) -> dict[str, Any]:
        return {"mixing": self.mixing if self.mixing == "linear" else f"{self.mixing} of sets of {self.set_sizes}"}

    def _weights_of(self, transform: Tensor) -> Tensor:
        return ant_mixture.mixed(transform, self.set_sizes, self.mixing)

    def _table(self) -> tuple[TableOperators, tuple[Any, ...]]:
        if self.frozen:
            return super()._table()
        mixture = (self.transform, self.anchors, list(self.set_sizes), self.mixing, self.padding_idx)
        return ant_mixture.MIXTURE, mixture

    def extra_repr(self) -> str:
        """Return sizes, mixing and state for ``print(model)``."""
        return f"{super().extra_repr()}, set_sizes={self.set_sizes}, mixing={self.mixing!r}"
