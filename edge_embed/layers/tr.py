"""`TREmbedding`: an embedding table learned as the cores of a tensor ring.

    E[(i_1 ... i_N), (j_1 ... j_N)] = trace(G_1[i_1, :, j_1, :] G_2[i_2, :, j_2, :] ... G_N[i_N, :, j_N, :])

Source: "Tensorized Embedding Layers for Efficient Model Compression" (ICLR 2020 submission), appendix B. A train is the
ring with R_0 = R_N = 1, so the packed form and every stage behind it are those of TT.
"""

from collections.abc import Sequence

from edge_embed.layers.factorization import checked_numbers
from edge_embed.layers.table import checked_count
from edge_embed.layers.tt import TTEmbedding


class TREmbedding(TTEmbedding):
    """Drop-in for ``nn.Embedding`` whose table is a ring of a few small cores.

    As `TTEmbedding` in everything but the ranks at the ends: R_0 = R_N may be more than 1, and no place in the chain is
    the first. For the same ratio ranks are smaller than those of a train (the paper's table 5 has 16 and 32 where
    trains have 32 and 64), and a row of rank R takes up to R times the work of a train's.

    Args:
        num_embeddings: rows n.
        embedding_dim: d.
        rank: R_0 ... R_{N-1}, or one R for all; R_N is R_0.
        row_shape: as for `TTEmbedding`, and so is what follows.
        col_shape: factors of d.
        num_cores: N, 2 to 6.
        padding_idx: this row is exactly zero and gets no gradient.
        device: as for ``nn.Embedding``.
        dtype: as for ``nn.Embedding``.
        ratio: in place of ``rank``: the largest R that makes ``compression_ratio`` at least this.
        row_order: as for `TTEmbedding`.

    Shape:
        ids of any integer dtype and any shape (*), 0-d and empty included -> (*, d).

    Raises:
        BadInputError: for impossible sizes, a ratio that no rank reaches, or ids that are not integers.
        IdOutOfRangeError: for ids below 0 or at least n (on an accelerator its own gather asserts).
    """

    _is_ring = True

    def _ranks(self, rank: int | Sequence[int]) -> tuple[int, ...]:
        """R_0 ... R_N."""
        count = len(self.row_shape)
        if isinstance(rank, Sequence):
            given = checked_numbers("rank", rank, count)
            return *given, given[0]
        return (checked_count("rank", rank),) * (count + 1)

    @staticmethod
    def _rank_for(ranks: Sequence[int]) -> Sequence[int]:
        """The argument ``rank`` that makes R_0 ... R_N."""
        return ranks[:-1]
