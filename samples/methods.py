"""Makes the tables of each method, for any number of rows; row 0 is padding.

Options are those of the layer; ``layer`` is one that reduces bags where a model needs that.
"""

from typing import Any

import torch
from tables import MakeTable
from tied_output import small_embedding

import edge_embed


def dense(width: int) -> MakeTable:
    """``nn.Embedding``, which starts small."""
    return lambda rows: small_embedding(rows, width, padding_idx=0)


def vq(
    width: int,
    num_codes: int,
    num_groups: int,
    layer: type[edge_embed.DPQEmbedding] = edge_embed.DPQEmbedding,
    **options: Any,
) -> MakeTable:
    """DPQ-VQ."""
    return lambda rows: layer(rows, width, num_codes, num_groups, variant="vq", padding_idx=0, **options)


def sx(
    width: int, num_groups: int, layer: type[edge_embed.DPQEmbedding] = edge_embed.DPQEmbedding, **options: Any
) -> MakeTable:
    """DPQ-SX with K = 16 and what leaves few of its codes unused; tau = 2 lets more than one of them learn."""
    few_unused: dict[str, Any] = {"distance_norm": "per_group", "query_init_scale": 0.01, "temperature": 2.0}
    return lambda rows: layer(rows, width, 16, num_groups, padding_idx=0, **few_unused | options)


def tied_sx(width: int, num_groups: int) -> MakeTable:
    """DPQ-SX with K = 16 where an output layer shares the table: by directions of queries and keys, without a norm.

    The output layer takes all rows alike, look-ups take them as often as words come up: a norm over what is there gives
    a row other codes in the one than in the other, and a third set in eval mode. Directions need none: every key is
    the nearest of some query.
    """
    return sx(width, num_groups, metric="cosine", distance_norm=False, temperature=0.2)


def ant(
    width: int, num_anchors: int, layer: type[edge_embed.ANTEmbedding] = edge_embed.ANTEmbedding, **options: Any
) -> MakeTable:
    """ANT, whose anchors begin large."""
    return lambda rows: layer(rows, width, num_anchors, padding_idx=0, **options).start_from(
        vectors=torch.randn(num_anchors, width)
    )


def tt(
    width: int, rank: int, layer: type[edge_embed.TTEmbedding] = edge_embed.TTEmbedding, **options: Any
) -> MakeTable:
    """A tensor train."""
    return lambda rows: layer(rows, width, rank=rank, padding_idx=0, **options)
