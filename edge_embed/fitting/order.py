"""Orders of rows for tables of TT and TR: neighbours share numbers of the first cores, so they should be alike.

    row_order = by_frequency(counts)                       what the paper does
    row_order = by_clusters(rows)                          rows that are alike, next to one another
    layer = tt.fit(rows, rank=16, row_order=row_order)     or TTEmbedding(n, d, rank=16, row_order=row_order), to train

An order is stored with its table, 4 bytes a row. Whoever can renumber the tokens of a model instead, as its tokenizer
is made, stores none.

Sources: of the first "Tensorized Embedding Layers for Efficient Model Compression" (ICLR 2020 submission); of the
second Boley, "Principal Direction Divisive Partitioning" (Data Mining and Knowledge Discovery, 1998).
"""

import torch
from torch import Tensor
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.fitting.dense_table import Weight, table_size
from edge_embed.layers.table import checked_counts, checked_padding

_SMALLEST = 8  # rows of a cluster that is not divided again
_STEPS = 8  # of the power method; a better axis makes no better order


def by_frequency(counts: Tensor, padding_idx: int | None = None) -> Tensor:
    """The most frequent token first, equal ones by lowest id.

    Args:
        counts: how often each token comes up, numbers [n].
        padding_idx: this row keeps its place.

    Returns:
        For each id its row, int64 [n].

    Raises:
        BadInputError: if counts are not finite, or no such row is there.
    """
    scores = checked_counts(counts)
    padding_idx = checked_padding(padding_idx, len(scores))
    ids = scores.argsort(descending=True, stable=True)
    return _rows_of(ids if padding_idx is None else ids[ids != padding_idx], padding_idx, len(scores))


def by_clusters(rows: Weight, padding_idx: int | None = None) -> Tensor:
    """Rows that are alike next to one another.

    All rows are one cluster at first. Each cluster is divided at its mean, across the direction in which its rows
    differ most, until clusters are small; the halves are ordered as the cluster around them was. The same rows always
    give the same order.

    Args:
        rows: [n, d] of any float type: pretrained ones, or those of a trained table; held in memory as float32.
        padding_idx: this row keeps its place, whatever it holds.

    Returns:
        For each id its row, int64 [n].

    Raises:
        BadInputError: if they are no table of finite floats, or no such row is there.
    """
    padding_idx = checked_padding(padding_idx, table_size(rows)[0])
    table = torch.as_tensor(rows).detach().float().cpu()
    ids = torch.arange(len(table))
    if padding_idx is not None:
        ids = ids[ids != padding_idx]
    if not table[ids].isfinite().all():
        raise BadInputError("rows: got NaN, infinity or a number too large for float32, expected finite ones")
    if not len(ids):
        return torch.arange(len(table))
    table = table / table[ids].abs().max().clamp(min=torch.finfo(table.dtype).tiny)  # squares of it are finite
    divided, clusters = list[Tensor](), [(ids, torch.zeros(len(ids)))]
    while clusters:
        ids, before = clusters.pop()
        places = _along_axis(table[ids], before) if len(ids) > 1 else before
        by_place = places.argsort(stable=True)
        ids, places = ids[by_place], places[by_place]
        if len(ids) <= _SMALLEST or places[0] == places[-1]:
            divided.append(ids)
            continue
        least = len(ids) // _SMALLEST  # or a few far rows would be cut off one at a time
        half = min(max(int((places <= 0).sum()), least), len(ids) - least)
        clusters += [(ids[half:], places[half:]), (ids[:half], places[:half])]
    return _rows_of(torch.cat(divided), padding_idx, len(table))


def _along_axis(rows: Tensor, before: Tensor) -> Tensor:
    """Places of rows [m, d] along their main axis, 0 at their mean, in the direction of their places before: [m]."""
    rows = rows - rows.mean(0)
    axis = rows[rows.square().sum(1).argmax()]
    for _ in range(_STEPS):
        axis = functional.normalize(rows.T @ (rows @ axis), dim=0)
    places = rows @ axis
    return -places if (places * (before - before.mean())).sum() < 0 else places


def _rows_of(ids: Tensor, padding_idx: int | None, num_embeddings: int) -> Tensor:
    """The row of each id, from all ids but the padding one in the order of their rows."""
    rows = torch.arange(num_embeddings)
    order = rows.clone()
    order[ids] = rows if padding_idx is None else rows[rows != padding_idx]
    return order
