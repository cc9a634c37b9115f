"""`ANTMixtureEmbedding`: an embedding table learned as several sets of anchors, each with a transform of its own.

    E = sum_m mix(T_m) A_m        T_m >= 0 [n, A_m], A_m anchors [A_m, d]; mix: softmax over each row, or none

Source: "Anchor & Transform: Learning Sparse Embeddings for Large Vocabularies" (ICLR 2021), appendix E. Arithmetic, and
what of it is ours: `edge_embed.ops.ant_mixture`.
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

    ``anchors`` [A, d] and ``transform`` [n, A] have the sets side by side, A = A_1 + ... + A_M:
    ``layer.anchors.split(layer.set_sizes)`` are A_1 to A_M. Begin each set as you like with
    ``start_from(vectors=torch.cat(...))``, and train with `edge_embed.ProximalOptimizer`, as `ANTEmbedding`.

    It is packed, saved and exported as an ANT table with the same rows, which has one set and no softmax. Of a softmax
    it holds a weight for each entry of a transform above the smallest of its row and set, one more for each row and
    set, and M more anchors. Transforms that are not sparse so take all n A weights: ``to_packed().nbytes`` says how
    much that is; ``freeze("float16")`` and ``freeze("int8")`` make the weights smaller.

    Args:
        num_embeddings: rows n.
        embedding_dim: d.
        set_sizes: A_1 ... A_M, the anchors of each set; the paper's classifiers had 5 in each.
        mixing: ``"softmax"``, of each row of each T_m; ``"linear"``, for the sum of T_m A_m, the rows of one
            `ANTEmbedding` with all anchors; or ``"sparsemax"``, which is not of the paper: as softmax, with weights
            that become zero by themselves. Train that with a penalty of 0, since zeros of T_m have equal weights too.
        padding_idx: this row is exactly zero and gets no gradient.
        device: as for ``nn.Embedding``.
        dtype: as for ``nn.Embedding``; export wants float32 or float16.

    Shape:
        ids of any integer dtype and any shape (*), 0-d and empty included -> (*, d).

    Raises:
        BadInputError: for impossible sizes, an unknown mixing, or ids that are not integers.
        IdOutOfRangeError: for ids below 0 or at least n (on an accelerator its own gather asserts).
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
            raise BadInputError(f"set_sizes must be the anchors of each set, such as (10, 20), got {set_sizes!r:.80}")
        ant_mixture.check_mixing(mixing)
        sizes = checked_numbers("set_sizes", set_sizes, len(set_sizes))
        super().__init__(num_embeddings, embedding_dim, sum(sizes), padding_idx, device, dtype)
        self.set_sizes, self.mixing = sizes, mixing

    def start_from(self, anchor_ids: Tensor | None = None, vectors: Tensor | None = None) -> Self:
        """Begin training from known anchors, as `ANTEmbedding.start_from`, which says the rest.

        Args:
            anchor_ids: for a linear mixture alone: a softmax makes no row one anchor.
            vectors: the anchors of all sets, float [A, d].

        Raises:
            BadInputError: as there, and for ``anchor_ids`` in another mixture.
        """
        if anchor_ids is not None and self.mixing != "linear":
            raise BadInputError(f"anchor_ids: got some for a {self.mixing} mixture, expected vectors alone")
        return super().start_from(anchor_ids, vectors)

    @classmethod
    def from_packed(cls, packed: PackedANT) -> Self:
        """A frozen layer over the arrays of ``packed``, which are copied: a linear mixture of one set.

        Raises:
            BadInputError: if it is of another method.
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
        """Sizes, mixing and state, as ``print(model)`` shows them."""
        return f"{super().extra_repr()}, set_sizes={self.set_sizes}, mixing={self.mixing!r}"
