"""Embedding layers of a model: its attribute ``table``, one layer or several in an ``nn.ModuleDict``."""

from collections.abc import Callable, Sequence

from baselines.trained import OtherTable
from torch import nn

from edge_embed.layers.rotated import RotatedEmbedding
from edge_embed.layers.table import CompressedEmbedding
from edge_embed.packed.packed_form import PackedTable

_NUMBER = 4  # bytes of a float32 number

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
    """Return the bytes of a layer as it is stored: packed, or float32 for a dense one or another baseline."""
    if isinstance(table, nn.Embedding | nn.EmbeddingBag):
        return table.weight.nbytes
    if isinstance(table, OtherTable):
        return _NUMBER * table.numbers
    if isinstance(table, RotatedEmbedding):
        return table_bytes(table.embedding) + table.rotation.nbytes
    return _packed(table).nbytes


def paper_numbers(table: nn.Module) -> float:
    """Return the float32 numbers of a layer by the count of its method's paper, with 32 bits of codes as one number.

    DPQ counts n D log2 K bits of codes and K d numbers, ANT A d + nnz(T), TT its cores. Tiers, which no paper counts,
    are their bytes. A rotation counts d^2 numbers.
    """
    if isinstance(table, nn.Embedding | nn.EmbeddingBag | OtherTable):
        return table_bytes(table) / _NUMBER
    if isinstance(table, RotatedEmbedding):
        return paper_numbers(table.embedding) + table.rotation.numel()
    numbers = rows_of(table) * width_of(table)
    return numbers / _packed(table).shape.compression_ratio


def _packed(table: nn.Module) -> PackedTable:
    assert isinstance(table, CompressedEmbedding)
    return table.to_packed()
