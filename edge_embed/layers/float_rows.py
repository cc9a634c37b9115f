"""`FloatRows`: the rows of an ``nn.Embedding`` as a tier of `edge_embed.layers.tiered.TieredEmbedding`.

row(i) = E_i, stored as one DPQ group whose codes number the rows
"""

from typing import Any, Self

import torch
from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.layers.table import CompressedEmbedding, Memory
from edge_embed.ops.ids import check_id_range
from edge_embed.ops.operators import TableOperators, finish_rows, without_capture
from edge_embed.ops.storage import stored_array
from edge_embed.packed.bits import MAX_CODES
from edge_embed.packed.dpq import PackedDPQ


class FloatRows(CompressedEmbedding):
    """Trainable rows of floats, which exist only inside a `TieredEmbedding`; freezing that stores them.

    Args:
        embedding: layer whose parameter ``weight`` [n, d] this one takes over as ``rows``; at most 65,536 rows.

    Raises:
        BadInputError: for more rows, or options of ``nn.Embedding`` that change rows or gradients.
    """

    rows: nn.Parameter

    def __init__(self, embedding: nn.Embedding) -> None:
        super().__init__(embedding.num_embeddings, embedding.embedding_dim, None, embedding.weight.dtype)
        if self.num_embeddings > MAX_CODES:
            remedy = "use edge_embed.IntegerEmbedding for more"
            raise BadInputError(f"got {self.num_embeddings} rows of floats, expected at most {MAX_CODES}: {remedy}")
        for option in ("padding_idx", "max_norm", "scale_grad_by_freq", "sparse"):
            value = getattr(embedding, option)
            if value is not None and value is not False:
                raise BadInputError(f"got an nn.Embedding with {option}={value!r:.80}, expected one without")
        assert isinstance(embedding.weight, nn.Parameter)
        self.rows = embedding.weight

    @property
    def frozen(self) -> bool:
        """Always False: frozen tiers belong to the frozen `TieredEmbedding`."""
        return False

    def freeze(self) -> Self:
        """Raise, because the table freezes all its tiers.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError

    @property
    def stored_type(self) -> torch.dtype:
        """Dtype of the rows."""
        return self.rows.dtype

    @property
    def own_rows(self) -> nn.Parameter:
        """The rows [n, d]."""
        return self.rows

    def training_rows(self, own: Tensor, counts: Tensor, update: bool = True, memory: Memory | None = None) -> Tensor:
        """Return the rows themselves."""
        return own

    def to_packed(self) -> PackedDPQ:
        """Return the packed form, with values float16 for float16 rows and float32 for others."""
        return PackedDPQ.from_rows(stored_array(self.rows))

    def _table(self) -> tuple[TableOperators, tuple[Any, ...]]:
        return _ROWS, (self.rows, self.padding_idx)

    def extra_repr(self) -> str:
        """Return sizes for ``print(model)``."""
        return f"{self.num_embeddings}, {self.embedding_dim}"


def _rows(ids: Tensor, weight: Tensor, padding_idx: int | None) -> Tensor:
    check_id_range(ids, weight.shape[0])
    return finish_rows(weight.index_select(0, ids.reshape(-1).long()), ids, padding_idx)


_ROWS = without_capture("float_rows", _rows, lambda weight, padding_idx: tuple(weight.shape))
