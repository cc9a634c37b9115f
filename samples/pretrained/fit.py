"""Compressed forms of a table that somebody trained: three simple fits, each a few lines.

dpq   k-means in each group of columns
ant   the principal axes and their opposites as anchors; each row keeps its largest coordinates
tt    singular value decompositions, one between two cores (TT-SVD); the package has it
"""

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans  # type: ignore[import-untyped]

import edge_embed
from edge_embed.compression import tt as compression_tt

Rows = NDArray[np.float32]
Packed = edge_embed.PackedDPQ | edge_embed.PackedANT | edge_embed.PackedTT


def dpq(
    rows: Rows,
    num_codes: int,
    num_groups: int,
    padding_idx: int | None = None,
    counts: NDArray[np.float64] | None = None,
) -> edge_embed.PackedDPQ:
    """Product quantisation: rows [n, d], each group of d / D columns by one of K centres.

    Rows that come up often can be met better: ``counts`` [n] says how often each does.
    """
    codes, values = [], []
    for group in np.split(rows, num_groups, axis=1):  # [n, d / D]
        clusters = KMeans(num_codes, n_init=1, max_iter=20, random_state=0).fit(group, sample_weight=counts)
        codes.append(clusters.labels_)
        values.append(clusters.cluster_centers_.astype(np.float32))
    return edge_embed.PackedDPQ.from_codes(np.stack(codes, 1), np.stack(values), padding_idx)


def ant(rows: Rows, num_nonzeros: int, padding_idx: int | None = None) -> edge_embed.PackedANT:
    """Each row as a sum of few principal axes; with the opposite of each axis no weight has to be negative."""
    _, _, axes = np.linalg.svd(rows, full_matrices=False)  # [d, d]
    coordinates = rows @ axes.T  # [n, d]
    smallest_kept = np.sort(np.abs(coordinates), axis=1)[:, -num_nonzeros, np.newaxis]
    coordinates[np.abs(coordinates) < smallest_kept] = 0
    transform = np.maximum(np.hstack((coordinates, -coordinates)), 0)  # [n, 2 d]
    return edge_embed.PackedANT.from_dense(transform, np.vstack((axes, -axes)), padding_idx, weight_type="int8")


def tt(
    rows: Rows, row_shape: tuple[int, ...], col_shape: tuple[int, ...], rank: int, padding_idx: int | None = None
) -> edge_embed.PackedTT:
    """TT-SVD, to the largest ``rank``."""
    return compression_tt.fit(rows, rank, row_shape, col_shape, padding_idx=padding_idx).to_packed()
