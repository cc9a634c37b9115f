"""Tiered tables in the benchmark: random tables, the struct of the C interface, and the work of a lookup.

A random table has a twentieth of the rows as integers of 8 bits, a fifth as integers of 4 bits, and the others as DPQ,
in random order. Operations of a row are those of its tier, on average.
"""

import ctypes

import numpy as np

from edge_embed.bench import dpq
from edge_embed.bench.c_types import INT64, POINTER, SIZE, array, padding
from edge_embed.bench.dpq import SCALED_KERNEL
from edge_embed.bench.method import BenchMethod, Kernel
from edge_embed.packed.bits import pack
from edge_embed.packed.dpq import PackedDPQ
from edge_embed.packed.tiered import PackedTiered

_FIRST, _SECOND = 20, 5  # one row of so many
_ROW_SCALES = 64


class _Table(ctypes.Structure):
    _fields_ = (
        ("tiers", ctypes.POINTER(SCALED_KERNEL.struct)),
        ("tiers_bytes", SIZE),
        ("tier_map", POINTER),
        ("tier_map_bytes", SIZE),
        ("tier_ranks", POINTER),
        ("tier_ranks_bytes", SIZE),
        ("num_embeddings", INT64),
        ("padding_idx", INT64),
    )


def _struct(packed: PackedTiered) -> _Table:
    tiers = (SCALED_KERNEL.struct * len(packed.tiers))(*map(SCALED_KERNEL.fill, packed.tiers))
    return _Table(
        tiers,
        ctypes.sizeof(tiers),
        *((None, 0) if packed.tier_map is None else array(packed.tier_map)),
        *((None, 0) if packed.tier_ranks is None else array(packed.tier_ranks)),
        packed.num_embeddings,
        padding(packed),
    )


def _random_table(random: np.random.Generator, n: int, dim: int, codes: int, groups: int) -> PackedTiered:
    """Return a random table whose last tier has ``codes`` codes a group.

    Raises:
        BadInputError: if the sizes make no table.
    """
    first, second = max(1, n // _FIRST), max(1, n // _SECOND)
    tiers = (
        _integers(random, first, dim, 8),
        _integers(random, second, dim, 4),
        dpq.random_table(random, n - first - second, dim, codes, groups),
    )
    return PackedTiered.from_tiers(tiers, random.permutation(np.repeat(range(3), [len(tier.codes) for tier in tiers])))


def _integers(random: np.random.Generator, n: int, dim: int, bits: int) -> PackedDPQ:
    most = (1 << bits - 1) - 1
    values = np.arange(-most, most + 1, dtype=np.float32).reshape(1, -1, 1)
    codes = pack(random.integers(0, 2 * most + 1, (n, dim), np.uint16), bits)
    scales = random.uniform(0.1, 1, _ROW_SCALES).astype(np.float32)
    return PackedDPQ(codes, values, dim, None, None, random.integers(0, _ROW_SCALES, n, np.uint8), scales)


def _row(packed: PackedTiered) -> tuple[float, float]:
    of_tiers = np.array([dpq.DPQ.row(tier) for tier in packed.tiers])
    operations, stored = np.average(of_tiers, 0, [tier.num_embeddings for tier in packed.tiers])
    return float(operations), float(stored) + packed.shape.map_bytes / packed.num_embeddings


def _logits(packed: PackedTiered, batch: int) -> float:
    return sum(dpq.DPQ.logits(tier, batch) for tier in packed.tiers)


KERNEL = Kernel(5, _Table, _struct)
TIERED = BenchMethod(("codes", "groups"), _random_table, _row, _logits)
