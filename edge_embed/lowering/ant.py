"""Lowering of ANT: packs every form of a table as `PackedANT`."""

from typing import Any

from edge_embed.lowering.method import LoweringMethod, OnBlock
from edge_embed.ops import ant, ant_mixture
from edge_embed.packed.ant import PackedANT


def _pack_trainable(arguments: list[Any], on_block: OnBlock) -> PackedANT:
    transform, anchors, padding_idx = arguments
    return ant.sparse_form(transform, anchors, padding_idx, on_block=on_block)


def _pack_mixture(arguments: list[Any], on_block: OnBlock) -> PackedANT:
    *mixture, padding_idx = arguments
    return ant.sparse_form(*ant_mixture.linear_form(*mixture), padding_idx, on_block=on_block)


def _pack_frozen(arguments: list[Any], on_block: OnBlock) -> PackedANT:
    *tensors, padding_idx = arguments
    offsets, ids, weights, scale, anchors = (tensor.detach().cpu().contiguous().numpy() for tensor in tensors)
    packed = PackedANT(offsets, ids, weights, scale, anchors, padding_idx)
    on_block(packed.num_embeddings)
    return packed


ANT = LoweringMethod(
    name=PackedANT.method,
    packers={ant.TRAINABLE: _pack_trainable, ant_mixture.MIXTURE: _pack_mixture, ant.FROZEN: _pack_frozen},
    operators=lambda packed: ant.FROZEN,
    arguments=lambda packed, tensors: (*tensors, packed.padding_idx),
)
