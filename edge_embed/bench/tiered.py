"""Tiered tables in the benchmark: the struct of the C interface."""

import ctypes

from edge_embed.bench.c_types import INT64, POINTER, SIZE, array, padding
from edge_embed.bench.dpq import SCALED_KERNEL
from edge_embed.bench.method import Kernel
from edge_embed.packed.tiered import PackedTiered


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


KERNEL = Kernel(5, _Table, _struct)
