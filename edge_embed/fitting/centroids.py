"""Centroids of the sub-vectors of a dense table, by k-means.

    V_k  =  sum_{i: c_i = k} w_i x_i / sum_{i: c_i = k} w_i          c_i = argmin_k |x_i - V_k|

Large tables are sampled: row i is drawn with probability p_i = min(1, a w_i) and has the weight w_i / p_i, so sums are
unbiased. The mean is subtracted from sub-vectors, because distances are sums of products in float32.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.fitting.checkpoints import Kept
from edge_embed.fitting.dense_table import DenseTable
from edge_embed.fitting.k_means import improved, k_means
from edge_embed.fitting.processes import Arrays
from edge_embed.fitting.setting import OnGroup

# Measured on the embeddings of two language models and on synthetic families of rows, with the k-means of faiss: three
# runs in place of one lower the squared error by .4 to 9 %. k-means++ lowers it further, but moves centroids to the few
# outlying rows: the mean cosine of one of those tables fell from .916 to .909. Five runs give the same within the
# differences between seeds, .0001 of the mean cosine; so do more iterations than 50 of faiss, or 30 of ours.
ITERATIONS = 30
# Three runs on a quarter of many sub-vectors, of which the best continues on all, take 0.55 of the time of three runs
# on all. With 600 sub-vectors a code, of the tables of a language model and of CBOW, the squared error is 0.96 to 1.005
# times as large, over three seeds: the best centroids get more iterations.
_MANY, _MANY_PER_CODE = 1 << 15, 64
_PART = 4
# For a million rows and K = 256: 65,536 rows leave 1.3 % more squared error than 262,144, and 131,072 leave 0.4 %.
_SAMPLE = 1 << 17
_SAMPLE_PER_CODE = 128
_TOGETHER = 16  # groups stored together as a finished part, for any number of threads and processes
_SAMPLE_NUMBERS = 1 << 28  # 1 GiB; larger only if d is too large for two rows a code
_LEAST_WEIGHT = 1e-30  # relative to the mean: float32 holds no much smaller one


def most_points(num_codes: int) -> int:
    """Return about how many sub-vectors K centroids are fitted to; larger tables are sampled."""
    return max(_SAMPLE, _SAMPLE_PER_CODE * num_codes)


def find_centroids(
    table: DenseTable,
    scale: float,
    weights: Tensor,
    num_codes: int,
    num_groups: int,
    shared: bool,
    runs: int,
    seed: int,
    kept: Kept,
    on_group: OnGroup = lambda done, total: None,
    iterations: int = ITERATIONS,
) -> Tensor:
    """Find the centroids of each group of columns, or of all groups together.

    Args:
        table: rows [n, d].
        scale: power of two that rows are multiplied by.
        weights: weight of each row, float64 [n], at least 0.
        num_codes: number of codes K per group.
        num_groups: number of groups D.
        shared: whether all groups share one set of centroids.
        runs: number of runs of k-means; the best result is used.
        seed: random seed, at least 0.
        kept: store of finished groups.
        on_group: called with the number of finished groups, and of all, after each group.
        iterations: iterations of a run.

    Returns:
        float32 [D, K, s], or [1, K, s] if shared, of rows times ``scale``. If there are at most K different
        sub-vectors, these are the centroids, and the remaining centroids are zero.
    """
    tables, width = 1 if shared else num_groups, table.embedding_dim // num_groups
    wanted = table.embedding_dim // tables  # columns of a set of centroids
    ids, sample_weights = _sample(weights, num_codes, num_groups // tables, table.embedding_dim, seed)
    is_whole = len(ids) == int(weights.count_nonzero())

    def of_group(group: int, columns: Tensor) -> NDArray[np.float32]:
        points = _points(columns, width)
        found = _distinct([points], num_codes)
        if found is not None and not is_whole:
            own = slice(group * wanted, (group + 1) * wanted)
            found = _distinct(_all_points(table, scale, weights, own, width), num_codes)
        if found is not None:
            return np.pad(found, ((0, num_codes - len(found)), (0, 0)))
        each = sample_weights.repeat_interleave(num_groups // tables)
        return _by_k_means(points, each.numpy(), num_codes, runs, np.random.default_rng([seed, group]), iterations)

    def of_groups(groups: Sequence[int]) -> Arrays:
        found = []
        columns = table.columns(ids, slice(groups[0] * wanted, (groups[-1] + 1) * wanted), scale)
        # A group uses one thread: torch's own threads wait for each other after every small step.
        with ThreadPoolExecutor(torch.get_num_threads(), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for one in pool.map(of_group, groups, columns.split(wanted, 1)):
                found.append(one)
                others = groups[0] // _TOGETHER * _TOGETHER  # in earlier parts
                on_group(min(tables, others + len(found) * table.processes.size), tables)
        return {"value": np.stack(found)}

    parts = [range(begin, min(begin + _TOGETHER, tables)) for begin in range(0, tables, _TOGETHER)]
    joined = table.processes.joined
    found = []
    for part in parts:
        found.append(kept(f"centroids {part.start}", partial(joined, part, of_groups))["value"])
        on_group(part.stop, tables)  # a stored part calls no `of_groups`
    return torch.from_numpy(np.concatenate(found))


def _sample(weights: Tensor, num_codes: int, per_row: int, dim: int, seed: int) -> tuple[Tensor, Tensor]:
    """Sample rows, or return all rows with a weight: ids int64 [m] and weights float64 [m].

    Args:
        weights: float64 [n].
        num_codes: number of codes K per group.
        per_row: number of sub-vectors of a row for one set of centroids.
        dim: columns of a row.
        seed: random seed, at least 0.
    """
    wanted = most_points(num_codes) // per_row
    most = max(2 * num_codes, min(wanted, _SAMPLE_NUMBERS // dim))  # k-means needs K points
    chances = _chances(weights, most)
    chosen = torch.from_numpy(np.random.default_rng(seed).random(len(weights))) < chances
    return chosen.nonzero().flatten(), (weights / chances)[chosen]


def _chances(weights: Tensor, most: int) -> Tensor:
    """Return the sampling probability of each row, float64 [n]: proportional to weight, about ``most`` rows in all."""
    certain = weights > 0
    if int(certain.sum()) <= most:
        return certain.double()
    chances = weights * (most / weights.sum())
    while (chances > 1).any():
        certain = chances >= 1
        rest = weights.masked_fill(certain, 0)
        chances = (rest * ((most - int(certain.sum())) / rest.sum())).masked_fill(certain, 1)
    return chances


def _points(columns: Tensor, width: int) -> NDArray[np.float32]:
    """Return sub-vectors [*, s] of columns [m, *], of one group or of all; no zero is negative."""
    array: NDArray[np.float32] = (columns.reshape(-1, width) + 0.0).contiguous().numpy()
    return array


def _all_points(
    table: DenseTable, scale: float, weights: Tensor, own: slice, width: int
) -> Iterator[NDArray[np.float32]]:
    """Yield the sub-vectors of columns of all rows with a weight, block by block."""
    begin = 0
    for block in table.blocks(table.num_embeddings):
        counted = block[weights[begin : begin + len(block)] > 0]
        yield _points((counted[:, own] * scale).float(), width)
        begin += len(block)


def _distinct(blocks: Iterable[NDArray[np.float32]], most: int) -> NDArray[np.float32] | None:
    """Return the distinct points among points [*, s], or None if there are more than ``most``, usually found early."""
    found: NDArray[Any] | None = None
    width = 0
    for block in blocks:
        width = block.shape[1]
        words = block.view(np.dtype((np.void, block.dtype.itemsize * width))).reshape(-1)
        for begin in range(0, len(words), 2 * most):
            part = words[begin : begin + 2 * most]
            found = np.unique(part if found is None else np.concatenate((found, part)))
            if len(found) > most:
                return None
    return np.zeros((0, width), np.float32) if found is None else found.view(np.float32).reshape(-1, width)


def _by_k_means(
    points: NDArray[np.float32],
    weights: NDArray[np.float64],
    num_codes: int,
    runs: int,
    random: np.random.Generator,
    iterations: int,
) -> NDArray[np.float32]:
    """Return centroids [K, s] of points [m, s] with m > K."""
    mean = np.average(points, 0, weights)
    centred = torch.from_numpy((points - mean).astype(np.float32))
    is_even = weights.max() <= _PART * weights.mean()  # a part lacks most of the few rows that count
    each = torch.from_numpy(np.maximum(weights / weights.mean(), _LEAST_WEIGHT))
    if runs == 1 or not is_even or len(points) <= max(_MANY, _MANY_PER_CODE * num_codes):
        found = k_means(centred, each, num_codes, iterations, runs, random)
    else:
        some = torch.from_numpy(random.choice(len(points), len(points) // _PART, replace=False))
        first = k_means(centred[some], each[some], num_codes, iterations, runs, random)
        found = improved(centred, each, first, iterations).value
    return (found.numpy() + mean).astype(np.float32)
