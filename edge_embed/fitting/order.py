"""Orders of rows for TT and TR tables: neighbouring rows share numbers of the first cores, so they should be similar.

    row_order = by_frequency(counts)                       as in the paper
    row_order = by_clusters(rows)                          similar rows next to each other
    layer = tt.fit(rows, rank=16, row_order=row_order)     or TTEmbedding(n, d, rank=16, row_order=row_order), to train

An order is stored with its table, at 4 bytes a row. A model whose tokenizer can be built with renumbered tokens needs
no order.

Sources: `by_frequency` follows "Tensorized Embedding Layers for Efficient Model Compression" (ICLR 2020 submission);
`by_clusters` follows Boley, "Principal Direction Divisive Partitioning" (Data Mining and Knowledge Discovery, 1998).
"""

import torch
from torch import Tensor
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.fitting.dense_table import Weight, table_size
from edge_embed.layers.arguments import checked_counts, checked_padding

_SMALLEST = 8  # rows of a cluster that is not divided further
_STEPS = 8  # steps of the power method; a more accurate axis makes no better order


def by_frequency(counts: Tensor, padding_idx: int | None = None) -> Tensor:
    """Return the order by descending frequency; the lowest id is first among equal ones.

    Args:
        counts: frequency of each token, numbers [n].
        padding_idx: this row keeps its place.

    Returns:
        Row of each id, int64 [n].

    Raises:
        BadInputError: if counts are not finite, or the padding row is outside the table.
    """
    scores = checked_counts(counts)
    padding_idx = checked_padding(padding_idx, len(scores))
    ids = scores.argsort(descending=True, stable=True)
    return _rows_of(ids if padding_idx is None else ids[ids != padding_idx], padding_idx, len(scores))


def by_clusters(rows: Weight, padding_idx: int | None = None) -> Tensor:
    """Return an order that places similar rows next to each other.

    At first all rows are one cluster. Each cluster is divided at its mean along the direction of its largest variance,
    until clusters are small. The halves are ordered like the cluster around them. The same rows always give the same
    order.

    Args:
        rows: [n, d] of any float dtype, such as pretrained rows or those of a trained table; held in memory as float32.
        padding_idx: this row keeps its place, whatever it holds.

    Returns:
        Row of each id, int64 [n].

    Raises:
        BadInputError: if rows are not a table of finite floats, or the padding row is outside the table.
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
    table = table / table[ids].abs().max().clamp(min=torch.finfo(table.dtype).tiny)  # keeps their squares finite
    divided, clusters = list[Tensor](), [(ids, torch.zeros(len(ids)))]
    while clusters:
        ids, before = clusters.pop()
        places = _along_axis(table[ids], before) if len(ids) > 1 else before
        by_place = places.argsort(stable=True)
        ids, places = ids[by_place], places[by_place]
        if len(ids) <= _SMALLEST or places[0] == places[-1]:
            divided.append(ids)
            continue
        least = len(ids) // _SMALLEST  # otherwise a few distant rows would be split off one at a time
        half = min(max(int((places <= 0).sum()), least), len(ids) - least)
        clusters += [(ids[half:], places[half:]), (ids[:half], places[:half])]
    return _rows_of(torch.cat(divided), padding_idx, len(table))


def _along_axis(rows: Tensor, before: Tensor) -> Tensor:
    """Return places of rows [m, d] along their main axis, with 0 at the mean and the sign of the places before: [m]."""
    rows = rows - rows.mean(0)
    axis = rows[rows.square().sum(1).argmax()]
    for _ in range(_STEPS):
        axis = functional.normalize(rows.T @ (rows @ axis), dim=0)
    places = rows @ axis
    return -places if (places * (before - before.mean())).sum() < 0 else places


def _rows_of(ids: Tensor, padding_idx: int | None, num_embeddings: int) -> Tensor:
    """Return the row of each id, given all ids except the padding id in the order of their rows."""
    rows = torch.arange(num_embeddings)
    order = rows.clone()
    order[ids] = rows if padding_idx is None else rows[rows != padding_idx]
    return order
