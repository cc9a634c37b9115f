"""A layer of each kind that is trained, in two sizes of tables."""

from collections.abc import Callable, Mapping

import torch

import edge_embed
from edge_embed.layers.table import CompressedEmbedding

Layers = Mapping[str, Callable[[], CompressedEmbedding]]


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
        "TT": lambda: edge_embed.TTEmbedding(*sizes, rank=rank, **padding),
        "TT, own order": lambda: edge_embed.TTEmbedding(*sizes, rank=rank, row_order=torch.arange(rows).flip(0)),
        "TR": lambda: edge_embed.TREmbedding(*sizes, rank=rank // 2),
        "DPQ bag": lambda: edge_embed.DPQEmbeddingBag(*sizes, *codes, **padding),
    }
