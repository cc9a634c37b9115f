"""TT: cores are stored as they are trained -> `PackedTT`."""

from typing import Any

from edge_embed.lowering.method import Method, OnBlock
from edge_embed.ops import tt
from edge_embed.packed.tt import PackedTT


def _pack(arguments: list[Any], on_block: OnBlock) -> PackedTT:
    packed = tt.pack(*arguments)
    on_block(packed.num_embeddings)
    return packed


TT = Method(
    name=PackedTT.method,
    packers={tt.TT: _pack},
    operators=tt.TT,
    arguments=lambda packed, tensors: (tensors, packed.num_embeddings, packed.padding_idx),
)
