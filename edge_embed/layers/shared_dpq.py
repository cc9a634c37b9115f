"""`SharedDPQEmbedding`: rare rows that select among the first codes of the table of frequent rows.

    row(i) = V_1[c_1], ..., V_D[c_D]        c_j < K', of the K >= K' codes of another table        (MGQE)

Source: Kang and others, "Learning Multi-granular Quantized Embeddings for Large-Vocab Categorical Features in
Recommender Systems" (2020): shared centroids with variable K.
"""

from typing import Any, NoReturn

from torch import Tensor, nn

from edge_embed.errors import BadInputError
from edge_embed.keywords import suggests_keywords
from edge_embed.layers.arguments import checked_count
from edge_embed.layers.dpq import DPQEmbedding

_OPTIONS = (
    "num_groups",
    "variant",
    "share_subspaces",
    "distance_norm",
    "init_scale",
    "query_init_scale",
    "metric",
    "tie_key_value",
    "key_dim",
    "norm_eps",
    "norm_momentum",
    "value_gradient",
)


@suggests_keywords
class SharedDPQEmbedding(DPQEmbedding):
    """Tier of a `edge_embed.TieredEmbedding` that shares the codebooks of another tier, with fewer codes.

    Its rows have queries of their own, ``query`` [n, D w], and fewer bits a code. Keys and values are the first ones of
    the other tier, which both tiers train. The file stores the codebooks of each tier.

    Args:
        owner: trainable `DPQEmbedding` with the keys and values; it must be another tier of the same table. All options
            are those of this layer, and its temperature.
        num_embeddings: number of rows n.
        num_codes: K', the number of codes per group, 2 to that of the owner.

    Shape:
        ids of any integer dtype and any shape ``(*)`` -> ``(*, d)``.

    Raises:
        BadInputError: for another owner, one with moving averages, or impossible sizes.
    """

    def __init__(self, owner: DPQEmbedding, num_embeddings: int, num_codes: int) -> None:
        if type(owner) is not DPQEmbedding or owner.frozen or owner.centroids is not None:
            got = f"a {type(owner).__name__}"
            if type(owner) is DPQEmbedding:
                got = "a frozen layer" if owner.frozen else "a layer with ema_decay, which follows its own rows only"
            raise BadInputError(f"owner: got {got}, expected a trainable DPQEmbedding")
        super(DPQEmbedding, self).__init__(num_embeddings, owner.embedding_dim, None, owner.dtype)
        self.num_codes = checked_count("num_codes", num_codes)
        if not 2 <= self.num_codes <= owner.num_codes:
            raise BadInputError(f"num_codes: got {num_codes}, expected 2 to the {owner.num_codes} of the owner")
        self._owner = (owner,)  # in a tuple: a submodule would be a part of this layer too
        for name in _OPTIONS:
            setattr(self, name, getattr(owner, name))
        self.centroids = None
        self.query = nn.Parameter(owner.query.new_empty(self.num_embeddings, self.key_dim))
        if self.distance_norm:
            for name in ("running_mean", "running_var"):
                self.register_buffer(name, getattr(owner, name)[..., : self.num_codes].clone())
        self.register_buffer("value_scales", None)
        self.reset_parameters()

    @property
    def owner(self) -> DPQEmbedding:
        """The layer with the keys and values."""
        return self._owner[0]

    @property
    def value(self) -> Tensor:  # type: ignore[override]  # a parameter of the owner
        """The first values of the owner, [G, K', s]."""
        return self.owner.value[:, : self.num_codes]

    @property
    def key(self) -> Tensor:  # type: ignore[override]
        """The first keys of the owner, [G, K', w]."""
        return self.owner.key[:, : self.num_codes]

    @property
    def temperature(self) -> float:
        """Temperature of the owner; setting it sets that."""
        return self.owner.temperature

    @temperature.setter
    def temperature(self, temperature: float) -> None:
        self.owner.temperature = temperature

    @property
    def _learned_temperature(self) -> Tensor | None:
        return self.owner._learned_temperature  # which this layer does not hold itself

    def reset_parameters(self) -> None:
        """Draw new queries, and reset the running statistics."""
        nn.init.uniform_(self.query, -self.query_init_scale, self.query_init_scale)
        self._reset_statistics()

    def freeze(self, value_type: Any = None) -> NoReturn:
        """Raise, because the table freezes all its tiers.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError("freeze the TieredEmbedding of this tier")
