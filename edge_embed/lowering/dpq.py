"""Lowering of DPQ: packs a table that is trainable, frozen, or has scales of rows as `PackedDPQ`."""

from typing import Any

from edge_embed.lowering.method import LoweringMethod, OnBlock
from edge_embed.ops import dpq, integers
from edge_embed.packed.dpq import PackedDPQ


def _pack_trainable(arguments: list[Any], on_block: OnBlock) -> PackedDPQ:
    query, key, value, mean, variance, metric, padding_idx = arguments
    return dpq.pack(query, key, value, mean, variance, metric, padding_idx, on_block)


def _pack_integers(arguments: list[Any], on_block: OnBlock) -> PackedDPQ:
    latent, bits, padding_idx = arguments
    return integers.pack(latent, bits, padding_idx, on_block)


def _pack_frozen(arguments: list[Any], on_block: OnBlock) -> PackedDPQ:
    return _checked(dpq.pack_frozen(*arguments), on_block)


def _pack_scaled(arguments: list[Any], on_block: OnBlock) -> PackedDPQ:
    return _checked(dpq.pack_scaled(*arguments), on_block)


def _checked(packed: PackedDPQ, on_block: OnBlock) -> PackedDPQ:
    packed.check_codes()
    on_block(packed.num_embeddings)
    return packed


def _arguments(packed: PackedDPQ, tensors: list[Any]) -> tuple[Any, ...]:
    given = dict(zip(packed.tensors(), tensors, strict=True))
    plain = given["codes"], given["values"], given.get("value_scales")
    if packed.shape.is_plain:
        return *plain, packed.num_groups, packed.padding_idx
    scales = given.get("row_scale_codes"), given.get("row_scales")
    return *plain, *scales, packed.num_groups, packed.unused_columns, packed.padding_idx


DPQ = LoweringMethod(
    name=PackedDPQ.method,
    packers={
        dpq.TRAINABLE: _pack_trainable,
        integers.TRAINABLE: _pack_integers,
        dpq.FROZEN: _pack_frozen,
        dpq.SCALED: _pack_scaled,
    },
    operators=lambda packed: dpq.FROZEN if packed.shape.is_plain else dpq.SCALED,
    arguments=_arguments,
)
