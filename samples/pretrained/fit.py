"""Compressed forms of a table that somebody trained: three simple fits, each a few lines.

dpq   k-means in each group of columns
ant   the principal axes and their opposites as anchors; each row keeps its largest coordinates
tt    singular value decompositions, one between two cores (TT-SVD)
"""

import math

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans  # type: ignore[import-untyped]

import edge_embed

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
    """TT-SVD: rows [n, d] as a tensor [I_1, J_1, I_2, J_2, ...], cut between two cores to the largest ``rank``."""
    padded = np.zeros((math.prod(row_shape), rows.shape[1]), np.float32)
    padded[: len(rows)] = rows
    count = len(row_shape)
    pairs = [axis for k in range(count) for axis in (k, count + k)]
    rest = padded.reshape(*row_shape, *col_shape).transpose(pairs)  # [I_1, J_1, I_2, J_2, ...]
    cores, before = [], 1
    for i, j in zip(row_shape[:-1], col_shape[:-1], strict=True):
        left, sizes, right = np.linalg.svd(rest.reshape(before * i * j, -1), full_matrices=False)
        after = min(rank, len(sizes))
        cores.append(left[:, :after].reshape(before, i, j, after))
        rest, before = sizes[:after, np.newaxis] * right[:after], after
    cores.append(rest.reshape(before, row_shape[-1], col_shape[-1], 1))
    stored = tuple(np.ascontiguousarray(core.transpose(1, 0, 2, 3)) for core in cores)  # [I_k, R_{k-1}, J_k, R_k]
    return edge_embed.PackedTT(stored, len(rows), padding_idx)
