"""`TREmbedding`, an embedding table trained as the cores of a tensor ring.

    E[(i_1 ... i_N), (j_1 ... j_N)] = trace(G_1[i_1, :, j_1, :] G_2[i_2, :, j_2, :] ... G_N[i_N, :, j_N, :])

Source: "Tensorized Embedding Layers for Efficient Model Compression" (ICLR 2020 submission), appendix B. A train is a
ring with R_0 = R_N = 1, so the packed form and all later stages are those of TT.
"""

from collections.abc import Sequence

from edge_embed.layers.arguments import checked_count
from edge_embed.layers.factorization import checked_numbers
from edge_embed.layers.tt import TTEmbedding
from edge_embed.packed.tt import PackedTT


class TREmbedding(TTEmbedding):
    """Drop-in for ``nn.Embedding`` whose table is a ring of a few small cores.

    It differs from `TTEmbedding` only in the ranks at the ends: R_0 = R_N may be more than 1, so no core is the first.
    For the same compression ratio its ranks are smaller than those of a train. The paper's table 5 has ranks of 16 and
    32 for rings and of 32 and 64 for trains. A row of a ring of rank R takes up to R times the work of a train's row.

    Args:
        num_embeddings: number of rows n.
        embedding_dim: width d of a row.
        rank: R_0 ... R_{N-1}, or one R for all; R_N is R_0.
        row_shape: I_1 ... I_N with a product of at least n; by default even factors of n rounded up.
        col_shape: J_1 ... J_N with the product d; by default even factors of d.
        num_cores: N, 2 to 6; by default that of a given shape, else 3.
        padding_idx: id of the padding row, which is exactly zero and gets no gradient.
        device: as for ``nn.Embedding``.
        dtype: as for ``nn.Embedding``; export requires float32 or float16.
        ratio: alternative to ``rank``: selects the largest R with a ``compression_ratio`` of at least this.
        row_order: as for `TTEmbedding`.

    Shape:
        ids of any integer dtype and any shape ``(*)``, 0-d and empty included -> ``(*, d)``.

    Raises:
        BadInputError: for impossible sizes, a ratio that no rank reaches, or ids that are not integers.
        IdOutOfRangeError: for ids below 0 or at least n (on an accelerator, its own gather asserts).
    """

    _is_ring = True

    def _ranks(self, rank: int | Sequence[int]) -> tuple[int, ...]:
        """Return R_0 ... R_N."""
        count = len(self.row_shape)
        if isinstance(rank, Sequence):
            given = checked_numbers("rank", rank, count)
            return *given, given[0]
        return (checked_count("rank", rank),) * (count + 1)

    @staticmethod
    def _rank_for(ranks: Sequence[int]) -> Sequence[int]:
        """Return the argument ``rank`` for R_0 ... R_N."""
        return ranks[:-1]


def frozen_layer(packed: PackedTT) -> TTEmbedding:
    """Return a frozen layer with a copy of a packed table, a train or a ring."""
    return (TTEmbedding if packed.shape.ranks[0] == 1 else TREmbedding).from_packed(packed)
