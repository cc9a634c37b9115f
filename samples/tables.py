"""Embedding layers of a model: its attribute ``table``, one layer or several in an ``nn.ModuleDict``."""

from collections.abc import Callable, Sequence

from torch import nn

from edge_embed.layers.table import CompressedEmbedding

MakeTable = Callable[[int], nn.Module]  # rows -> an embedding layer


def tables(model: nn.Module) -> Sequence[nn.Module]:
    """Return the layers, in the order of their creation."""
    table = model.get_submodule("table")
    return list(table.children()) if isinstance(table, nn.ModuleDict) else [table]


def rows_of(table: nn.Module) -> int:
    """Return the rows of a layer."""
    rows = table.num_embeddings
    assert isinstance(rows, int)
    return rows


def width_of(table: nn.Module) -> int:
    """Return the columns of a layer."""
    width = table.embedding_dim
    assert isinstance(width, int)
    return width


def table_bytes(table: nn.Module) -> int:
    """Return the bytes of a layer as it is stored: packed, or float32 for a dense one."""
    if isinstance(table, nn.Embedding | nn.EmbeddingBag):
        return table.weight.nbytes
    assert isinstance(table, CompressedEmbedding)
    return table.to_packed().nbytes
