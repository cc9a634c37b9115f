"""Tier of each row, and the row's place in its tier.

    tier(id)  = code id % 256 of block id // 256, of 1 bit for two tiers and of 2 bits for three and four
    place(id) = tier_ranks[id // 256, tier(id)] + number of rows before id in its block that have its tier

The rows of a tier are stored in the order of their ids. The codes of the last block after the last row are zero.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from edge_embed.errors import BadInputError
from edge_embed.packed.bits import bits_for, pack, row_bytes, unpack
from edge_embed.packed.packed_form import TensorSpec

BLOCK = 256  # rows
MAX_ROWS = 2**31 - 1  # ranks are int32


def map_specs(num_embeddings: int, num_tiers: int) -> dict[str, TensorSpec]:
    """Return the specs of ``tier_map``, uint8 [blocks, 32 bits], and ``tier_ranks``, int32 [blocks, T]."""
    blocks = -(-num_embeddings // BLOCK)
    return {
        "tier_map": TensorSpec("uint8", (blocks, row_bytes(BLOCK, bits_for(num_tiers)))),
        "tier_ranks": TensorSpec("int32", (blocks, num_tiers)),
    }


def packed_map(tiers: NDArray[np.integer[Any]], num_tiers: int) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Return ``tier_map`` and ``tier_ranks`` of the tier of each row, integers [n] below T."""
    blocks = -(-len(tiers) // BLOCK)
    codes = np.zeros((blocks, BLOCK), np.uint8)
    codes.reshape(-1)[: len(tiers)] = tiers
    return pack(codes, bits_for(num_tiers)), ranks_of(np.asarray(tiers, np.uint8), num_tiers)


def ranks_of(tiers: NDArray[np.uint8], num_tiers: int) -> NDArray[np.int32]:
    """Return the number of rows of each tier before each block: int32 [blocks, T]."""
    blocks = -(-len(tiers) // BLOCK)
    counts = np.zeros((blocks, num_tiers), np.int64)
    for tier in range(num_tiers):
        counts[:, tier] = np.add.reduceat(tiers == tier, np.arange(0, len(tiers), BLOCK), dtype=np.int64)
    return (counts.cumsum(0) - counts).astype(np.int32)


def tiers_of(tier_map: NDArray[np.uint8], num_embeddings: int, num_tiers: int) -> NDArray[np.uint8]:
    """Return the tier of each row, uint8 [n].

    Raises:
        BadInputError: a code after the last row is not zero, or a tier does not exist.
    """
    codes = unpack(tier_map, bits_for(num_tiers), BLOCK).reshape(-1)
    if codes[num_embeddings:].any():
        raise BadInputError(f"tier_map: got a tier for a row after the last one, {num_embeddings - 1}, expected zeros")
    tiers: NDArray[np.uint8] = codes[:num_embeddings].astype(np.uint8, copy=False)
    if tiers.max() >= num_tiers:
        row = int((tiers >= num_tiers).argmax())
        raise BadInputError(f"tier_map: row {row}: got tier {tiers[row]}, expected 0 to {num_tiers - 1}")
    return tiers


def check_map(tier_map: NDArray[np.uint8], tier_ranks: NDArray[np.int32], sizes: tuple[int, ...]) -> None:
    """Check that a map has as many rows of each tier as the tiers, and that the ranks are those of the map.

    Raises:
        BadInputError: they differ; the message names the tier or the block.
    """
    tiers = tiers_of(tier_map, sum(sizes), len(sizes))
    for tier, (got, expected) in enumerate(zip(np.bincount(tiers, minlength=len(sizes)), sizes, strict=True)):
        if got != expected:
            raise BadInputError(f"tier_map: tier {tier}: got {got} rows, expected {expected}")
    different = tier_ranks != ranks_of(tiers, len(sizes))
    if different.any():
        block, tier = map(int, np.argwhere(different)[0])
        got = f"block {block}, tier {tier}: got {tier_ranks[block, tier]}"
        raise BadInputError(f"tier_ranks: {got}, expected the number of earlier rows of that tier in tier_map")


def places_of(
    tier_map: NDArray[np.uint8], tier_ranks: NDArray[np.int32], ids: NDArray[np.intp]
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Return tier and place in it of ids [m]: each [m]."""
    num_tiers = tier_ranks.shape[1]
    block, place = np.divmod(ids, BLOCK)
    codes = unpack(tier_map[block], bits_for(num_tiers), BLOCK)  # [m, 256]
    own = codes[np.arange(len(ids)), place].astype(np.intp)
    before = ((codes == own[:, np.newaxis]) & (np.arange(BLOCK) < place[:, np.newaxis])).sum(1)
    return own, tier_ranks[block, own] + before
