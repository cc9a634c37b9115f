"""Output layer that shares the table of the embedding layer, dense or compressed."""

from baselines.trained import OtherOutput, OtherTable
from torch import nn

import edge_embed
from edge_embed.layers.table import CompressedEmbedding


def tied_output(table: nn.Module, bias: bool) -> nn.Module:
    """Return a layer for scores [*, n] of hidden states [*, d] against every row: both uses train one table.

    Args:
        table: the embedding layer.
        bias: whether to train a number for each row as well.
    """
    if isinstance(table, CompressedEmbedding):
        return edge_embed.TiedOutput(table, bias)
    if isinstance(table, OtherTable):
        return OtherOutput(table, bias)
    if not isinstance(table, nn.Embedding):
        raise TypeError(f"got a {type(table).__name__}, expected an embedding layer")
    linear = nn.Linear(table.embedding_dim, table.num_embeddings, bias)
    linear.weight = table.weight
    return linear


def small_embedding(rows: int, width: int, padding_idx: int | None = None) -> nn.Embedding:
    """Return a dense table with small initial rows, like those of compressed tables.

    Its rows also compute scores. With the standard deviation 1 of ``nn.Embedding`` these would start far from even, and
    training would take much longer.
    """
    table = nn.Embedding(rows, width, padding_idx)
    nn.init.normal_(table.weight, std=0.1)
    if padding_idx is not None:
        nn.init.zeros_(table.weight[padding_idx])
    return table
