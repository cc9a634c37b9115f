"""Which tokens come up near each other: related pairs for ANT, and a feature space to find anchors in.

Source: "Anchor & Transform" (ICLR 2021), section 3.1 and appendices F, H and J: a context of 10 tokens.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.layers.documents import Batch, Document, batches
from edge_embed.layers.table import checked_count
from edge_embed.ops.ids import check_id_range, integer_ids

_Keys = np.ndarray[Any, np.dtype[np.int64]]


class Cooccurrence(NamedTuple):
    """Pairs of tokens that come up together.

    Attributes:
        pairs: ids int64 [2, P]; in each pair the lower first, no pair twice, no token with itself.
        counts: how often, int64 [P].
    """

    pairs: Tensor
    counts: Tensor


def count(
    documents: Iterable[Document], num_embeddings: int, window: int = 10, anchor_ids: Tensor | None = None
) -> Cooccurrence:
    """Pairs of tokens at most ``window`` places apart in the same document, with how often that happens.

    Frequent words come up near everything: ``found.pairs[:, found.counts >= 20]`` keeps what is no accident.

    Args:
        documents: ids of each text without its padding, integers [m].
        num_embeddings: n.
        window: the paper takes 10.
        anchor_ids: only pairs with one of these tokens, int64 [A]: takes less memory, and is all that positive pairs
            need; negative ones and features need all pairs.

    Raises:
        BadInputError: for a document that is no row of integers, a window below 1, or anchors that are no integers.
        IdOutOfRangeError: for an id outside the table.
    """
    for name, number in (("num_embeddings", num_embeddings), ("window", window)):
        checked_count(name, number)
    wanted = np.ones(num_embeddings, bool)
    if anchor_ids is not None:
        anchor_ids = integer_ids(anchor_ids).cpu()
        check_id_range(anchor_ids, num_embeddings)
        wanted[:] = False
        wanted[anchor_ids.numpy()] = True
    keys, counts = np.zeros(0, np.int64), np.zeros(0, np.int64)
    for batch in batches(documents, num_embeddings):
        found = np.concatenate([_keys(batch, distance, wanted) for distance in range(1, window + 1)])
        keys, counts = _merged(keys, counts, *np.unique(found, return_counts=True))
    pairs = np.stack((keys // num_embeddings, keys % num_embeddings))
    return Cooccurrence(torch.from_numpy(pairs), torch.from_numpy(counts))


def features(found: Cooccurrence, num_embeddings: int, width: int) -> Tensor:
    """Tokens that come up near the same others are close: log(1 + count) of all pairs, cut to its largest directions.

    Args:
        found: of `count`, without ``anchor_ids``.
        num_embeddings: n.
        width: f, how many directions; at most n.

    Returns:
        float32 [n, f]; drawn with torch's generator, as ``torch.svd_lowrank`` is.

    Raises:
        BadInputError: if ``width`` is not 1 to n, or ``found`` is not of `count`.
        IdOutOfRangeError: for an id outside the table.
    """
    if not isinstance(found, Cooccurrence):
        raise BadInputError(f"found: got a {type(found).__name__}, expected what cooccurrence.count gave")
    for name, number in (("num_embeddings", num_embeddings), ("width", width)):
        checked_count(name, number)
    check_id_range(found.pairs, num_embeddings)
    if width > num_embeddings:
        raise BadInputError(f"width must be at most the {num_embeddings} rows, got {width}")
    both = torch.cat((found.pairs, found.pairs.flip(0)), 1)
    weights = found.counts.float().log1p().repeat(2)
    size = (num_embeddings, num_embeddings)
    matrix = torch.sparse_coo_tensor(both, weights, size, check_invariants=True).coalesce()
    left, sizes, _ = torch.svd_lowrank(matrix, width)
    result: Tensor = left * sizes
    return result


def _keys(batch: Batch, distance: int, wanted: np.ndarray[Any, np.dtype[np.bool_]]) -> _Keys:
    """One number for each pair this far apart: lower id times n plus higher id."""
    one, other = batch.ids[:-distance], batch.ids[distance:]
    kept = (batch.owners[:-distance] == batch.owners[distance:]) & (one != other) & (wanted[one] | wanted[other])
    one, other = one[kept], other[kept]
    keys: _Keys = np.minimum(one, other) * len(wanted) + np.maximum(one, other)
    return keys


def _merged(keys: _Keys, counts: _Keys, more: _Keys, times: _Keys) -> tuple[_Keys, _Keys]:
    """Sums over the keys of both."""
    merged, places = np.unique(np.concatenate((keys, more)), return_inverse=True)
    sums = np.zeros(len(merged), np.int64)
    np.add.at(sums, places, np.concatenate((counts, times)))
    return merged, sums
