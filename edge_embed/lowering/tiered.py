"""Lowering of tiered tables: the stored tensors, as `PackedTiered`."""

from typing import Any

from edge_embed.lowering.method import LoweringMethod, OnBlock
from edge_embed.ops import tiered
from edge_embed.packed.tiered import PackedTiered
from edge_embed.packed.tiered_shape import NO_MAP, TENSORS


def _pack(arguments: list[Any], on_block: OnBlock) -> PackedTiered:
    packed = tiered.pack(*arguments)
    packed.check()
    on_block(packed.num_embeddings)
    return packed


def _arguments(packed: PackedTiered, tensors: list[Any]) -> tuple[Any, ...]:
    own = len(NO_MAP)
    by_name = ([*tensors[own + at :: len(TENSORS)]] for at in range(len(TENSORS)))
    return *tensors[:own], *by_name, [tier.num_groups for tier in packed.tiers], packed.padding_idx


TIERED = LoweringMethod(
    name=PackedTiered.method,
    packers={tiered.TIERED: _pack},
    operators=lambda packed: tiered.TIERED,
    arguments=_arguments,
)
