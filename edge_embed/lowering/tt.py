"""Lowering of TT: packs cores as they are trained, with an order of rows as int32, as `PackedTT`."""

from typing import Any

from edge_embed.lowering.method import LoweringMethod, OnBlock
from edge_embed.ops import tt
from edge_embed.packed.tt import PackedTT


def _pack(arguments: list[Any], on_block: OnBlock) -> PackedTT:
    cores, *order, num_embeddings, padding_idx = arguments
    packed = tt.pack(cores, num_embeddings, padding_idx, *order)
    on_block(packed.num_embeddings)
    return packed


def _arguments(packed: PackedTT, tensors: list[Any]) -> tuple[Any, ...]:
    count = len(packed.cores)
    return tensors[:count], *tensors[count:], packed.num_embeddings, packed.padding_idx


TT = LoweringMethod(
    name=PackedTT.method,
    packers={tt.TT: _pack, tt.ORDERED: _pack},
    operators=lambda packed: tt.TT if packed.row_order is None else tt.ORDERED,
    arguments=_arguments,
)
