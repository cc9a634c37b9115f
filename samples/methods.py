"""Tables of each method, for any number of rows; row 0 is padding.

Options are those of the layer; ``layer`` is a bag for models that need one.
"""

from typing import Any

import torch
from baselines.trained import Mode, OtherTable
from tables import MakeTable
from tied_output import small_embedding
from torch import nn

import edge_embed


def dense(width: int) -> MakeTable:
    """Return a function that makes an ``nn.Embedding`` with small initial rows."""
    return lambda rows: small_embedding(rows, width, padding_idx=0)


def vq(
    width: int,
    num_codes: int,
    num_groups: int,
    layer: type[edge_embed.DPQEmbedding] = edge_embed.DPQEmbedding,
    **options: Any,
) -> MakeTable:
    """Return a function that makes a DPQ-VQ table."""
    return lambda rows: layer(rows, width, num_codes, num_groups, variant="vq", padding_idx=0, **options)


def sx(
    width: int,
    num_groups: int,
    num_codes: int = 16,
    layer: type[edge_embed.DPQEmbedding] = edge_embed.DPQEmbedding,
    **options: Any,
) -> MakeTable:
    """Return a function that makes a DPQ-SX table with options that use most codes; tau = 2 trains several."""
    few_unused: dict[str, Any] = {"distance_norm": "per_group", "query_init_scale": 0.01, "temperature": 2.0}
    return lambda rows: layer(rows, width, num_codes, num_groups, padding_idx=0, **few_unused | options)


def tied_sx(width: int, num_groups: int) -> MakeTable:
    """Return a function that makes a DPQ-SX table, K = 16, for a shared output layer: cosines, without a norm.

    The output layer weights all rows alike, while lookups weight words by frequency. A norm over either gives a row
    different codes in each, and a third set in eval mode. Cosines need no norm: every key is the nearest of some query.
    """
    return sx(width, num_groups, metric="cosine", distance_norm=False, temperature=0.2)


def ant(
    width: int, num_anchors: int, layer: type[edge_embed.ANTEmbedding] = edge_embed.ANTEmbedding, **options: Any
) -> MakeTable:
    """Return a function that makes an ANT table, whose initial anchors are large."""
    return lambda rows: layer(rows, width, num_anchors, padding_idx=0, **options).start_from(
        vectors=torch.randn(num_anchors, width)
    )


def tiers(width: int, frequent: float, others: float, num_groups: int, **options: Any) -> MakeTable:
    """Return a function that makes a tiered table of rows that are sorted by frequency.

    Args:
        width: columns.
        frequent: share of the rows that have 8 bits a number.
        others: share of the rows that have 4 bits a number.
        num_groups: groups of the DPQ-VQ table of the rare rows, K = 16.
        **options: options of that table.
    """

    def make(rows: int) -> nn.Module:
        sizes = [max(1, int(share * rows)) for share in (frequent, others)]
        integers = [edge_embed.IntegerEmbedding(n, width, bits) for n, bits in zip(sizes, (8, 4), strict=True)]
        rare = edge_embed.DPQEmbedding(rows - sum(sizes), width, 16, num_groups, variant="vq", **options)
        return edge_embed.TieredEmbedding([*integers, rare], padding_idx=0)

    return make


def other(kind: type[OtherTable], width: int, size: int, mode: Mode = "rows") -> MakeTable:
    """Return a function that makes a table of `baselines.trained`, with a rank or a number of stored rows."""
    return lambda rows: kind(rows, width, size, mode)


def tt(
    width: int, rank: int, layer: type[edge_embed.TTEmbedding] = edge_embed.TTEmbedding, **options: Any
) -> MakeTable:
    """Return a function that makes a tensor train."""
    return lambda rows: layer(rows, width, rank=rank, padding_idx=0, **options)
