"""Tiered tables of random numbers, with tiers of every kind."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.packed import PackedDPQ, PackedTiered
from edge_embed.packed.bits import bits_for, pack

KINDS = ("floats", "integers", "columns", "groups", "shared rows")


def tier(kind: str, n: int, dim: int, value_type: str = "float32", seed: int = 0) -> PackedDPQ:
    """Return a tier of n rows of dim columns, an even number."""
    random = np.random.default_rng(seed)
    if kind == "floats":
        values = random.standard_normal((1, max(n, 2), dim)).astype(value_type)
        codes = pack(np.arange(n)[:, np.newaxis], bits_for(values.shape[1]))
        return PackedDPQ(codes, values, 1)
    if kind == "integers":
        integers = np.arange(-7, 8, dtype=value_type).reshape(1, -1, 1)
        codes = pack(random.integers(0, 15, (n, dim)), 4)
        scales = random.uniform(0, 1, 5).astype(np.float32)
        return PackedDPQ(codes, integers, dim, None, None, random.integers(0, 5, n, np.uint8), scales)
    num_codes, groups = {"columns": (5, dim), "groups": (6, dim // 2), "shared rows": (16, 1)}[kind]
    values = random.standard_normal((groups, num_codes, dim // groups)).astype(value_type)
    return PackedDPQ(pack(random.integers(0, num_codes, (n, groups)), bits_for(num_codes)), values, groups)


def tiered(
    kinds: Sequence[str] = ("floats", "integers", "groups"),
    sizes: Sequence[int] = (40, 200, 360),
    dim: int = 6,
    value_type: str = "float32",
    padding_idx: int | None = 3,
    is_sorted: bool = False,
) -> PackedTiered:
    """Return a table whose rows are in random tiers, or sorted by tier."""
    tiers = tuple(tier(kind, n, dim, value_type, seed) for seed, (kind, n) in enumerate(zip(kinds, sizes, strict=True)))
    tier_of = np.repeat(np.arange(3), sizes)
    if not is_sorted:
        np.random.default_rng(9).shuffle(tier_of)
    return PackedTiered.from_tiers(tiers, tier_of, padding_idx)


def dense(table: PackedTiered, tier_of: NDArray[Any]) -> NDArray[np.float64]:
    """Return all rows, by counting the rows of each tier one by one."""
    places = [0, 0, 0]
    rows = np.empty((len(tier_of), table.embedding_dim))
    for row, number in enumerate(tier_of):
        rows[row] = table.tiers[number].rows_float64(places[number])
        places[number] += 1
    if table.padding_idx is not None:
        rows[table.padding_idx] = 0
    return rows
