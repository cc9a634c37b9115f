"""DPQ: both states of a table -> `PackedDPQ`."""

from typing import Any

from edge_embed.lowering.method import Method, OnBlock
from edge_embed.ops import dpq
from edge_embed.packed.dpq import PackedDPQ


def _pack_trainable(arguments: list[Any], on_block: OnBlock) -> PackedDPQ:
    query, key, value, mean, variance, metric, padding_idx = arguments
    return dpq.pack(query, key, value, mean, variance, metric, padding_idx, on_block)


def _pack_frozen(arguments: list[Any], on_block: OnBlock) -> PackedDPQ:
    packed = dpq.pack_frozen(*arguments)
    packed.check_codes()
    on_block(packed.num_embeddings)
    return packed


def _arguments(packed: PackedDPQ, tensors: list[Any]) -> tuple[Any, ...]:
    codes, values, *scales = tensors
    return codes, values, scales[0] if scales else None, packed.num_groups, packed.padding_idx


DPQ = Method(
    name=PackedDPQ.method,
    packers={dpq.TRAINABLE: _pack_trainable, dpq.FROZEN: _pack_frozen},
    operators=lambda packed: dpq.FROZEN,
    arguments=_arguments,
)
