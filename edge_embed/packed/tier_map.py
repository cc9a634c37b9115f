"""Tier of each row, and the row's place in its tier.

    tier(id)  = code id % 256 of block id // 256, of 2 bits
    place(id) = tier_ranks[id // 256, tier(id)] + number of rows before id in its block that have its tier

The rows of a tier are stored in the order of their ids. The codes of the last block after the last row are zero.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed.bits import pack, row_bytes, unpack
from edge_embed.packed.packed_form import TensorSpec

NUM_TIERS = 3
BITS = 2  # of a row in the map
BLOCK = 256  # rows
MAX_ROWS = 2**31 - 1  # ranks are int32


def map_bytes(num_embeddings: int) -> int:
    """Return the bytes of the map and of the ranks."""
    return -(-num_embeddings // BLOCK) * (row_bytes(BLOCK, BITS) + 4 * NUM_TIERS)


def map_specs(num_embeddings: int) -> dict[str, TensorSpec]:
    """Return the specs of ``tier_map``, uint8 [blocks, 64], and ``tier_ranks``, int32 [blocks, 3]."""
    blocks = -(-num_embeddings // BLOCK)
    return {
        "tier_map": TensorSpec("uint8", (blocks, row_bytes(BLOCK, BITS))),
        "tier_ranks": TensorSpec("int32", (blocks, NUM_TIERS)),
    }


def packed_map(tiers: NDArray[np.integer[Any]]) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Return ``tier_map`` and ``tier_ranks`` of the tier of each row, integers [n] below 3."""
    blocks = -(-len(tiers) // BLOCK)
    codes = np.zeros((blocks, BLOCK), np.uint8)
    codes.reshape(-1)[: len(tiers)] = tiers
    return pack(codes, BITS), ranks_of(np.asarray(tiers, np.uint8))


def ranks_of(tiers: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return the number of rows of each tier before each block: int32 [blocks, 3]."""
    blocks = -(-len(tiers) // BLOCK)
    counts = np.zeros((blocks, NUM_TIERS), np.int64)
    for tier in range(NUM_TIERS):
        counts[:, tier] = np.add.reduceat(tiers == tier, np.arange(0, len(tiers), BLOCK), dtype=np.int64)
    return (counts.cumsum(0) - counts).astype(np.int32)


def tiers_of(tier_map: NDArray[np.uint8], num_embeddings: int) -> NDArray[np.uint8]:
    """Return the tier of each row, uint8 [n].

    Raises:
        BadInputError: a code after the last row is not zero, or a tier does not exist.
    """
    codes = unpack(tier_map, BITS, BLOCK).reshape(-1)
    if codes[num_embeddings:].any():
        raise BadInputError(f"tier_map: got a tier for a row after the last one, {num_embeddings - 1}, expected zeros")
    tiers: NDArray[np.uint8] = codes[:num_embeddings].astype(np.uint8, copy=False)
    if tiers.max() >= NUM_TIERS:
        row = int((tiers >= NUM_TIERS).argmax())
        raise BadInputError(f"tier_map: row {row}: got tier {tiers[row]}, expected 0 to {NUM_TIERS - 1}")
    return tiers


def positions_of(tiers: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return the position of each row among all rows sorted by tier, int32 [n], of the tier of each row, [n]."""
    positions = np.empty(len(tiers), np.int32)
    positions[tiers.argsort(kind="stable")] = np.arange(len(tiers), dtype=np.int32)
    return positions


def check_map(tier_map: NDArray[np.uint8], tier_ranks: NDArray[np.int32], sizes: tuple[int, ...]) -> None:
    """Check that a map has as many rows of each tier as the tiers, and that the ranks are those of the map.

    Raises:
        BadInputError: they differ; the message names the tier or the block.
    """
    tiers = tiers_of(tier_map, sum(sizes))
    for tier, (got, expected) in enumerate(zip(np.bincount(tiers, minlength=NUM_TIERS), sizes, strict=True)):
        if got != expected:
            raise BadInputError(f"tier_map: tier {tier}: got {got} rows, expected {expected}")
    different = tier_ranks != ranks_of(tiers)
    if different.any():
        block, tier = map(int, np.argwhere(different)[0])
        got = f"block {block}, tier {tier}: got {tier_ranks[block, tier]}"
        raise BadInputError(f"tier_ranks: {got}, expected the number of earlier rows of that tier in tier_map")


def places_of(
    tier_map: NDArray[np.uint8], tier_ranks: NDArray[np.int32], ids: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return tier and place in it of ids [m]: each [m]."""
    block, place = np.divmod(ids, BLOCK)
    codes = unpack(tier_map[block], BITS, BLOCK)  # [m, 256]
    own = codes[np.arange(len(ids)), place].astype(np.intp)
    before = ((codes == own[:, np.newaxis]) & (np.arange(BLOCK) < place[:, np.newaxis])).sum(1)
    return own, tier_ranks[block, own] + before
