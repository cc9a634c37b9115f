"""Co-occurrence of tokens: related pairs for ANT, and a feature space for the selection of anchors.

Source: "Anchor & Transform" (ICLR 2021), section 3.1 and appendices F, H and J: a context of 10 tokens.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.layers.arguments import checked_count
from edge_embed.layers.documents import Batch, Document, batches
from edge_embed.ops.ids import check_id_range, integer_ids

_Keys = np.ndarray[Any, np.dtype[np.int64]]


class Cooccurrence(NamedTuple):
    """Pairs of tokens that occur together.

    Attributes:
        pairs: ids int64 [2, P], the lower id first, each pair once, no token with itself.
        counts: number of occurrences of each pair, int64 [P].
    """

    pairs: Tensor
    counts: Tensor


def count(
    documents: Iterable[Document], num_embeddings: int, window: int = 10, anchor_ids: Tensor | None = None
) -> Cooccurrence:
    """Count pairs of tokens that are at most ``window`` places apart in the same document.

    Frequent words occur near every other word. ``found.pairs[:, found.counts >= 20]`` drops accidental pairs.

    Args:
        documents: ids of each text without its padding, integers [m].
        num_embeddings: number of rows n.
        window: maximum distance of two tokens; the paper uses 10.
        anchor_ids: only count pairs with one of these tokens, int64 [A]. This takes less memory and suffices for
            positive pairs; negative pairs and features require all pairs.

    Returns:
        The pairs and the number of times that each occurs.

    Raises:
        BadInputError: for a document that is not a row of integers, a window below 1, or anchors that are not integers.
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
    """Return features that place tokens with similar neighbours close together.

    The features are the largest singular directions of the matrix log(1 + count) of all pairs.

    Args:
        found: result of `count` without ``anchor_ids``.
        num_embeddings: number of rows n.
        width: f, the number of directions, at most n.

    Returns:
        float32 [n, f]; random, as ``torch.svd_lowrank`` draws from torch's generator.

    Raises:
        BadInputError: if ``width`` is outside 1 to n, or ``found`` is not a result of `count`.
        IdOutOfRangeError: for an id outside the table.
    """
    if not isinstance(found, Cooccurrence):
        raise BadInputError(f"found: got a {type(found).__name__}, expected the result of cooccurrence.count")
    for name, number in (("num_embeddings", num_embeddings), ("width", width)):
        checked_count(name, number)
    check_id_range(found.pairs, num_embeddings)
    if width > num_embeddings:
        raise BadInputError(f"width must be at most {num_embeddings}, the number of rows, got {width}")
    both = torch.cat((found.pairs, found.pairs.flip(0)), 1)
    weights = found.counts.float().log1p().repeat(2)
    size = (num_embeddings, num_embeddings)
    matrix = torch.sparse_coo_tensor(both, weights, size, check_invariants=True).coalesce()
    left, sizes, _ = torch.svd_lowrank(matrix, width)
    result: Tensor = left * sizes
    return result


def _keys(batch: Batch, distance: int, wanted: np.ndarray[Any, np.dtype[np.bool_]]) -> _Keys:
    """Return one number for each pair at this distance: lower id times n plus higher id."""
    one, other = batch.ids[:-distance], batch.ids[distance:]
    kept = (batch.owners[:-distance] == batch.owners[distance:]) & (one != other) & (wanted[one] | wanted[other])
    one, other = one[kept], other[kept]
    keys: _Keys = np.minimum(one, other) * len(wanted) + np.maximum(one, other)
    return keys


def _merged(keys: _Keys, counts: _Keys, more: _Keys, times: _Keys) -> tuple[_Keys, _Keys]:
    """Merge two lists of keys and add the counts of equal keys."""
    merged, places = np.unique(np.concatenate((keys, more)), return_inverse=True)
    sums = np.zeros(len(merged), np.int64)
    np.add.at(sums, places, np.concatenate((counts, times)))
    return merged, sums
