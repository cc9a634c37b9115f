"""Tiered table, packed: three tiers, from many bits for frequent rows to few for rare ones. Each is a DPQ table.

    row(id) = row of tier(id) at place(id), in float32        `edge_embed.packed.tier_map`

Without a map, the first rows are those of tier 0, the next those of tier 1, and so on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from edge_embed.errors import BadInputError, located
from edge_embed.keywords import suggests_keywords
from edge_embed.packed.arrays import check_specs
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.ids import check_padding_idx, checked_ids
from edge_embed.packed.packed_form import PackedTable, check_form
from edge_embed.packed.tier_map import NUM_TIERS, check_map, packed_map, places_of
from edge_embed.packed.tiered_shape import NO_MAP, NO_SCALES, TENSORS, TIERED_TENSORS, TieredShape, tensor_name


@suggests_keywords
@dataclass(frozen=True, eq=False, repr=False)
class PackedTiered(PackedTable):
    """Packed tiered table.

    Attributes:
        tiers: three DPQ tables of equal columns, all with float32 or all with float16 values, without padding rows.
        tier_map: uint8 [blocks, 32 bits]: the tier of each row; None if the rows are sorted by tier.
        tier_ranks: int32 [blocks, 3]: rows of each tier before each block of 256 rows; None without a map.
        padding_idx: row that is exactly +0.0, whatever its tier stores, or None.

    Raises:
        BadInputError: a shape, dtype or value is wrong.
    """

    tiers: tuple[PackedDPQ, ...]
    tier_map: NDArray[np.uint8] | None = None
    tier_ranks: NDArray[np.int32] | None = None
    padding_idx: int | None = None
    method: ClassVar[str] = "tiered"

    def __post_init__(self) -> None:
        for number, tier in enumerate(self.tiers):
            check_form(tier, PackedDPQ)
            if tier.padding_idx is not None:
                raise BadInputError(f"tier {number}: got a padding row, expected none; give padding_idx of the table")
        if (self.tier_map is None) != (self.tier_ranks is None):
            raise BadInputError("tier_map and tier_ranks: got one of them, expected both or none")
        check_specs(self.tensors(), self.shape.tensor_specs())
        check_padding_idx(self.padding_idx, self.num_embeddings)

    @classmethod
    def from_tiers(
        cls,
        tiers: tuple[PackedDPQ, ...],
        tier_of: NDArray[np.integer[Any]] | None = None,
        padding_idx: int | None = None,
    ) -> Self:
        """Return a table with a map of the tier of each row.

        Args:
            tiers: the tiers, whose rows are in the order of their ids.
            tier_of: integers [n], the tier of each row; None if rows are sorted by tier.
            padding_idx: row of zeros, or None.

        Raises:
            BadInputError: they do not fit each other.
        """
        if tier_of is None or (np.diff(tier_of.astype(np.int64)) >= 0).all():
            table = cls(tiers, None, None, padding_idx)
        else:
            table = cls(tiers, *packed_map(tier_of), padding_idx)
        table.check()
        return table

    @classmethod
    def shape_from(
        cls, num_embeddings: int, embedding_dim: int, attributes: Mapping[str, Any], value_type: str = "float32"
    ) -> TieredShape:
        """Return the sizes that a file declares.

        Raises:
            BadInputError: an attribute is missing, unknown or out of range, or does not fit n.
        """
        if attributes.keys() != {"tiers", "has_map"}:
            raise BadInputError(f"attributes: got {sorted(attributes)}, expected ['has_map', 'tiers']")
        declared, has_map = _declared_tiers(attributes), attributes["has_map"]
        if type(has_map) is not bool:
            raise BadInputError(f"has_map: got {has_map!r:.80}, expected true or false")
        tiers = []
        for number, each in enumerate(declared):
            with located(f"tier {number}"):
                own = {name: value for name, value in each.items() if name != "num_embeddings"}
                tiers.append(PackedDPQ.shape_from(each.get("num_embeddings"), embedding_dim, own, value_type))
        shape = TieredShape(tuple(tiers), has_map)
        if type(num_embeddings) is not int or num_embeddings != shape.num_embeddings:
            got = f"num_embeddings: got {num_embeddings!r:.80}"
            raise BadInputError(f"{got}, expected {shape.num_embeddings}, the rows of all tiers")
        return shape

    @classmethod
    def from_tensors(
        cls, tensors: Mapping[str, NDArray[Any]], attributes: Mapping[str, Any], padding_idx: int | None = None
    ) -> Self:
        """Return the table of a file's tensors after a check of every code and of the map.

        Raises:
            BadInputError: a tensor or attribute is missing, or does not fit the others.
        """
        if tensors.keys() != set(TIERED_TENSORS):
            raise BadInputError(f"tensors: got {sorted(tensors)!r:.300}, expected {list(TIERED_TENSORS)}")
        declared = _declared_tiers(attributes)
        tiers = []
        for number, each in enumerate(declared):
            codes, values, row_scale_codes, row_scales = (tensors[tensor_name(number, name)] for name in TENSORS)
            scales = (row_scale_codes, row_scales) if row_scales.size else (None, None)
            with located(f"tier {number}"):
                tiers.append(PackedDPQ(codes, values, each.get("num_groups"), None, None, *scales))
        stored: list[Any] = [tensors[name] if attributes.get("has_map") is True else None for name in NO_MAP]
        table = cls(tuple(tiers), stored[0], stored[1], padding_idx)
        table.check_declared(cls.shape_from(table.num_embeddings, table.embedding_dim, attributes, table.value_type))
        table.check()
        return table

    @property
    def shape(self) -> TieredShape:
        """All sizes."""
        return TieredShape(tuple(tier.shape for tier in self.tiers), self.tier_map is not None)

    @property
    def num_embeddings(self) -> int:
        """Number of rows n."""
        return self.shape.num_embeddings

    @property
    def value_type(self) -> str:
        """Dtype of the values of all tiers, ``float32`` or ``float16``."""
        return self.tiers[0].value_type

    @property
    def row_type(self) -> str:
        """Dtype of the rows: ``float32``."""
        return "float32"

    def tensors(self) -> dict[str, NDArray[Any]]:
        """Return the map and the arrays of each tier, not copied; missing ones have no elements."""
        own: dict[str, Any] = {"tier_map": self.tier_map, "tier_ranks": self.tier_ranks}
        found = {name: np.empty(NO_MAP[name].shape, NO_MAP[name].dtype) if a is None else a for name, a in own.items()}
        empty = {name: np.empty(spec.shape, spec.dtype) for name, spec in NO_SCALES.items()}
        for number, tier in enumerate(self.tiers):
            tensors = {**empty, **tier.tensors()}
            found |= {tensor_name(number, name): tensors[name] for name in TENSORS}
        return found

    def places(self, ids: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """Return the tier of ids [m], and the row in it: each [m]."""
        if self.tier_map is not None and self.tier_ranks is not None:
            return places_of(self.tier_map, self.tier_ranks, ids)
        ends = np.cumsum([tier.num_embeddings for tier in self.tiers])
        tier = np.searchsorted(ends, ids, "right")
        return tier, ids - np.concatenate([[0], ends])[tier]

    def rows_float64(self, ids: ArrayLike) -> NDArray[np.float64]:
        """Return the rows of ids as float64, [*ids.shape, d]; every implementation computes with exactly these."""
        ids = checked_ids(ids, self.num_embeddings)
        flat = ids.reshape(-1)
        tiers, places = self.places(flat)
        rows = np.empty((len(flat), self.embedding_dim))
        for number, tier in enumerate(self.tiers):
            own = tiers == number
            rows[own] = tier.rows_float64(places[own])
        if self.padding_idx is not None:
            rows[flat == self.padding_idx] = 0.0
        return rows.reshape(*ids.shape, self.embedding_dim)

    def magnitudes(self, ids: ArrayLike) -> NDArray[np.float64]:
        """Return |row|, float64 [*ids.shape, d]: an element is one term, not a sum."""
        return np.abs(self.rows_float64(ids))

    def check(self) -> None:
        """Check all codes, and that the map has as many rows of each tier as the tiers.

        Raises:
            BadInputError: a code, a tier of a row or a rank is wrong; the message names the place.
        """
        for number, tier in enumerate(self.tiers):
            with located(f"tier {number}"):
                tier.check_codes()
        if self.tier_map is not None and self.tier_ranks is not None:
            check_map(self.tier_map, self.tier_ranks, tuple(tier.num_embeddings for tier in self.tiers))


def _declared_tiers(attributes: Mapping[str, Any]) -> list[Any]:
    declared = attributes.get("tiers")
    if not isinstance(declared, list) or len(declared) != NUM_TIERS or not all(type(each) is dict for each in declared):
        raise BadInputError(f"tiers: got {declared!r:.80}, expected a list of {NUM_TIERS} objects")
    return declared
