"""Frozen layers of packed tables of any method."""

from collections.abc import Callable
from typing import Any

from edge_embed.layers.table import CompressedEmbedding
from edge_embed.methods import Parts
from edge_embed.packed.packed_form import PackedTable

_LAYERS: Parts[Callable[[Any], CompressedEmbedding]] = Parts("layers")


def frozen_layer(packed: PackedTable) -> CompressedEmbedding:
    """Return a frozen layer with a copy of a packed table.

    Raises:
        BadInputError: its method has no layer.
    """
    return _LAYERS[packed.method](packed)
