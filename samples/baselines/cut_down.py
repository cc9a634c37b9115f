"""Baselines of equal bytes: a dense table, trained as such and compressed afterwards.

svd     the best matrix of rank r
pq      k-means in each group of columns, rows weighted by frequency
tt      a tensor train, by singular value decompositions

A fourth way is a tiered table (tiers): more bytes for frequent rows than for rare ones.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.cluster import KMeans

import edge_embed
from edge_embed.errors import SizeError
from edge_embed.fitting import tt
from edge_embed.layers.factorization import column_shape, row_shape
from edge_embed.packed import bits

Rows = NDArray[np.float32]

TIERS = "tiers"
WAYS = ("svd", "pq", "tt", TIERS)
_CORES = 3
_CODES = (16, 4, 2)  # of each group: fewer if the first do not fit


def cut_down(rows: Rows, counts: NDArray[np.int64], nbytes: int, ways: Sequence[str] = WAYS) -> dict[str, Rows]:
    """Return rows [n, d] of each method from at most ``nbytes``; a method that needs more is left out.

    Args:
        rows: rows of the dense table.
        counts: frequency of each row in training, [n].
        nbytes: bytes of the compressed table.
        ways: names of the methods.
    """
    made = {
        "svd": lambda: _svd(rows, nbytes),
        "pq": lambda: _pq(rows, counts, nbytes),
        "tt": lambda: _tt(rows, nbytes),
        TIERS: lambda: _tiers(rows, counts, nbytes),
    }
    found = {way: made[way]() for way in ways}
    return {name: table for name, table in found.items() if table is not None}


def _svd(rows: Rows, nbytes: int) -> Rows | None:
    rank = nbytes // (4 * sum(rows.shape))
    if rank == 0:
        return None
    left, sizes, right = np.linalg.svd(rows, full_matrices=False)
    found: Rows = (left[:, :rank] * sizes[:rank]) @ right[:rank]
    return found


def _pq(rows: Rows, counts: NDArray[np.int64], nbytes: int) -> Rows | None:
    n, dim = rows.shape
    for codes in _CODES:
        fitting = [
            groups
            for groups in range(1, dim + 1)
            if dim % groups == 0 and n * bits.row_bytes(groups, bits.bits_for(codes)) + 4 * codes * dim <= nbytes
        ]
        if fitting and codes <= n:
            weights = counts.astype(np.float64) + 1  # a word of the test may only have occurred in validation
            return np.hstack([_quantised(group, codes, weights) for group in np.split(rows, max(fitting), axis=1)])
    return None


def _quantised(points: Rows, codes: int, weights: NDArray[np.float64]) -> Rows:
    """Replace each of the points [n, d / D] by the nearest of few centres."""
    clusters = KMeans(codes, n_init=1, max_iter=20, random_state=0).fit(points, sample_weight=weights)
    found: Rows = clusters.cluster_centers_.astype(np.float32)[clusters.labels_]
    return found


def _tt(rows: Rows, nbytes: int) -> Rows | None:
    n, dim = rows.shape
    shapes = row_shape(n, _CORES), column_shape(dim, _CORES)
    sizes = [i * j for i, j in zip(*shapes, strict=True)]
    most = 0
    while 4 * _numbers(sizes, most + 1) <= nbytes and most < max(sizes) ** 2:
        most += 1
    return tt.fit(rows, most, *shapes).to_packed().rows(np.arange(n)) if most else None


def _numbers(sizes: list[int], rank: int) -> int:
    """Return the number of numbers in cores whose ranks are all ``rank``."""
    first, *middle, last = sizes
    return rank * (first + last) + rank**2 * sum(middle)


def _tiers(rows: Rows, counts: NDArray[np.int64], nbytes: int) -> Rows | None:
    model = torch.nn.Sequential(torch.nn.Embedding.from_pretrained(torch.from_numpy(rows)))
    weights = {"0": torch.from_numpy(counts + 1)}  # as for pq
    try:
        small, _ = edge_embed.compress(model, "tiered", modules=["0"], budget=nbytes, counts=weights)
    except SizeError:
        return None
    with torch.no_grad():
        found: Rows = small.get_submodule("0")(torch.arange(len(rows))).numpy()
    return found


def replace_rows(table: torch.nn.Module, rows: Rows) -> None:
    """Write other rows into a dense table, and so into an output layer that shares it."""
    weight = table.get_parameter("weight")
    with torch.no_grad():
        weight.copy_(torch.from_numpy(rows))
