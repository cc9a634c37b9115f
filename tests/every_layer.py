"""A layer of each kind that is trained, in two sizes of tables."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

import edge_embed
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.layers.tiered import TieredEmbedding

Layers = Mapping[str, Callable[[], CompressedEmbedding]]


def tiered_layer(rows: int, width: int, num_codes: int, num_groups: int, **options: Any) -> TieredEmbedding:
    """Return a layer with tiers of each kind, whose rows are in turn in each of them."""
    tiers = [
        nn.Embedding(len(range(0, rows, 3)), width),
        edge_embed.IntegerEmbedding(len(range(1, rows, 3)), width, 4),
        edge_embed.DPQEmbedding(len(range(2, rows, 3)), width, num_codes, num_groups, variant="vq"),
    ]
    return edge_embed.TieredEmbedding(tiers, torch.arange(rows) % 3, **options)


def every_layer(rows: int, width: int, num_codes: int, num_groups: int, num_anchors: int, rank: int) -> Layers:
    """Return functions that make the layers [rows, width]; half of them have the padding row 0."""
    sizes, codes, padding = (rows, width), (num_codes, num_groups), {"padding_idx": 0}
    clusters = [num_anchors // 2, num_anchors - num_anchors // 2]
    return {
        "DPQ, SX": lambda: edge_embed.DPQEmbedding(*sizes, *codes, **padding),
        "DPQ, VQ": lambda: edge_embed.DPQEmbedding(*sizes, *codes, variant="vq", **padding),
        "DPQ, moving averages": lambda: edge_embed.DPQEmbedding(*sizes, *codes, variant="vq", ema_decay=0.9),
        "ANT": lambda: edge_embed.ANTEmbedding(*sizes, num_anchors, **padding),
        "ANT, sparsemax": lambda: edge_embed.ANTMixtureEmbedding(*sizes, clusters, "sparsemax"),
        "integers": lambda: edge_embed.IntegerEmbedding(*sizes, 3, **padding),
        "tiers": lambda: tiered_layer(rows, width, num_codes, num_groups, **padding),
        "TT": lambda: edge_embed.TTEmbedding(*sizes, rank=rank, **padding),
        "TT, own order": lambda: edge_embed.TTEmbedding(*sizes, rank=rank, row_order=torch.arange(rows).flip(0)),
        "TR": lambda: edge_embed.TREmbedding(*sizes, rank=rank // 2),
        "DPQ bag": lambda: edge_embed.DPQEmbeddingBag(*sizes, *codes, **padding),
    }
