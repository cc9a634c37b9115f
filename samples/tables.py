"""The embedding layers of a model: its attribute ``table``, which is one, or several in an ``nn.ModuleDict``."""

from collections.abc import Callable, Sequence

from torch import nn

import edge_embed

MakeTable = Callable[[int], nn.Module]  # rows -> an embedding layer


def tables(model: nn.Module) -> Sequence[nn.Module]:
    """The layers, in the order in which they were made."""
    table = model.get_submodule("table")
    return list(table.children()) if isinstance(table, nn.ModuleDict) else [table]


def width_of(table: nn.Module) -> int:
    """Columns of a layer."""
    width = table.embedding_dim
    assert isinstance(width, int)
    return width


def table_bytes(table: nn.Module) -> int:
    """Of a layer as it is stored: packed, or float32 if it is dense."""
    if isinstance(table, nn.Embedding | nn.EmbeddingBag):
        return table.weight.nbytes
    assert isinstance(table, edge_embed.DPQEmbedding | edge_embed.ANTEmbedding | edge_embed.TTEmbedding)
    return table.to_packed().nbytes
