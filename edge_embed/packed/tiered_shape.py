"""Sizes of a tiered table: those of its tiers, each a DPQ table, and of the map from rows to tiers.

    nbytes = sum of the tiers + 76 blocks        blocks = ceil(n / 256)

A table whose rows are sorted by tier has no map. Rows of float32 or float16 are a tier with one group, whose codes
number the rows; rows that share a few vectors are one with fewer codes.
"""

from dataclasses import dataclass, replace
from typing import Any, Self

from edge_embed.errors import BadInputError
from edge_embed.packed.bits import MAX_CODES
from edge_embed.packed.dpq_shape import DPQShape
from edge_embed.packed.packed_form import TensorSpec
from edge_embed.packed.sizes import check_total
from edge_embed.packed.tier_map import MAX_ROWS, NUM_TIERS, map_bytes, map_specs
from edge_embed.packed.tier_words import numbers_rows

TENSORS = ("codes", "values", "row_scale_codes", "row_scales")
"""Tensors of a tier, in order; the last two are empty for a tier without scales of rows."""


NO_MAP = {"tier_map": TensorSpec("uint8", (0, 0)), "tier_ranks": TensorSpec("int32", (0, 0))}
NO_SCALES = {"row_scale_codes": TensorSpec("uint8", (0,)), "row_scales": TensorSpec("float32", (0,))}


def tensor_name(tier: int, tensor: str) -> str:
    """Return the name of a tensor of a tier: ``tier_0_codes``."""
    return f"tier_{tier}_{tensor}"


TIERED_TENSORS = (*NO_MAP, *(tensor_name(tier, name) for tier in range(NUM_TIERS) for name in TENSORS))
"""All tensors, in the order of the arguments of every operator."""


@dataclass(frozen=True)
class TieredShape:
    """Numbers that determine every size of a tiered table.

    Attributes:
        tiers: sizes of the three tiers, of equal columns and values, float32 or float16.
        has_map: whether the tier of each row is stored; otherwise the first rows are those of tier 0, and so on.

    Raises:
        BadInputError: the tiers do not fit each other, or there are too many rows.
    """

    tiers: tuple[DPQShape, ...]
    has_map: bool = False

    def __post_init__(self) -> None:
        if len(self.tiers) != NUM_TIERS:
            raise BadInputError(f"tiers: got {len(self.tiers)}, expected {NUM_TIERS}")
        first = self.tiers[0]
        for number, tier in enumerate(self.tiers):
            got, expected = ((each.embedding_dim, each.value_type) for each in (tier, first))
            if got != expected or tier.value_type == "int8" or tier.unused_columns:
                of_first = f"{first.embedding_dim} whole columns of float values like tier 0"
                raise BadInputError(
                    f"tier {number}: got {tier.embedding_dim} of {tier.value_type}, expected {of_first}"
                )
        if self.num_embeddings > MAX_ROWS:
            raise BadInputError(f"num_embeddings: got {self.num_embeddings}, expected at most {MAX_ROWS} rows")
        check_total(self.num_embeddings, self.embedding_dim, self.nbytes)

    @property
    def num_embeddings(self) -> int:
        """Number of rows n, those of all tiers."""
        return sum(tier.num_embeddings for tier in self.tiers)

    @property
    def embedding_dim(self) -> int:
        """Number of columns d."""
        return self.tiers[0].embedding_dim

    @property
    def value_type(self) -> str:
        """Dtype of the values of all tiers, ``float32`` or ``float16``."""
        return self.tiers[0].value_type

    @property
    def map_bytes(self) -> int:
        """Bytes of the tier of each row, and of the ranks."""
        return map_bytes(self.num_embeddings) if self.has_map else 0

    @property
    def nbytes(self) -> int:
        """Bytes of all tensors."""
        return sum(tier.nbytes for tier in self.tiers) + self.map_bytes

    @property
    def compression_ratio(self) -> float:
        """32 n d / stored bits."""
        return 4 * self.num_embeddings * self.embedding_dim / self.nbytes

    @property
    def plain(self) -> Self:
        """The sizes themselves: no other node adds anything to a tiered table."""
        return self

    def with_rows(self, num_embeddings: int) -> Self:
        """Return the sizes of a table with this number of rows, with the shares of the tiers kept."""
        share = num_embeddings / self.num_embeddings
        sizes = [max(1, round(share * tier.num_embeddings)) for tier in self.tiers[:-1]]
        sizes.append(max(1, num_embeddings - sum(sizes)))
        return replace(self, tiers=tuple(map(_tier_with_rows, self.tiers, sizes)))

    def attributes(self) -> dict[str, Any]:
        """Return the attributes that a file stores beside the tensors, ready for JSON."""
        tiers = [{"num_embeddings": tier.num_embeddings, **tier.attributes()} for tier in self.tiers]
        return {"tiers": tiers, "has_map": self.has_map}

    def tensor_specs(self) -> dict[str, TensorSpec]:
        """Return the specs of the map and of the tensors of each tier, in order; missing ones have no elements."""
        found = map_specs(self.num_embeddings) if self.has_map else dict(NO_MAP)
        for number, tier in enumerate(self.tiers):
            specs = {**NO_SCALES, **tier.tensor_specs()}
            found |= {tensor_name(number, name): specs[name] for name in TENSORS}
        return found


def _tier_with_rows(tier: DPQShape, num_embeddings: int) -> DPQShape:
    tier, has_values = tier.with_rows(num_embeddings), numbers_rows(tier)
    return replace(tier, num_codes=min(max(2, num_embeddings), MAX_CODES)) if has_values else tier
