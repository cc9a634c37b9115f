"""Centroids of the sub-vectors of a dense table, by k-means of faiss.

    V_k  =  sum_{i: c_i = k} w_i x_i / sum_{i: c_i = k} w_i          c_i = argmin_k |x_i - V_k|

Large tables are sampled: row i is drawn with probability p_i = min(1, a w_i) and has the weight w_i / p_i, so sums are
unbiased. The mean is subtracted from sub-vectors, because faiss computes |x|^2 - 2 x V + |V|^2 in float32.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from edge_embed.errors import BadInputError
from edge_embed.fitting.checkpoints import Kept
from edge_embed.fitting.dense_table import DenseTable
from edge_embed.fitting.processes import Arrays
from edge_embed.fitting.setting import OnGroup

# Measured on the embeddings of two language models and on synthetic families of rows: twice the 25 iterations of faiss
# lower the squared error by half a percent, three runs in place of one by .4 to 9 % more. k-means++ lowers it further,
# but moves centroids to the few outlying rows: the mean cosine of one of those tables fell from .916 to .909.
# 100 iterations or five runs give the same within the differences between seeds, .0001 of the mean cosine.
ITERATIONS = 50
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
_LEAST_WEIGHT = 1e-30  # relative to the mean: faiss divides by sums of weights in float32


def check_faiss() -> None:
    """Raise unless faiss is installed.

    Raises:
        BadInputError: if faiss cannot be imported.
    """
    try:
        import faiss  # noqa: F401, PLC0415
    except ImportError as error:
        remedy = "pip install 'edge-embed[compress]'"
        raise BadInputError(f"k-means: faiss cannot be imported ({error}), expected faiss-cpu: {remedy}") from error


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
    tables = 1 if shared else num_groups
    sampled, sample_weights = _sample(table, scale, weights, num_codes, num_groups // tables, seed)
    is_whole = len(sampled) == int(weights.count_nonzero())

    def of_group(group: int) -> NDArray[np.float32]:
        points = _points(sampled, tables, group, num_groups)
        found = _distinct([points], num_codes)
        if found is not None and not is_whole:
            found = _distinct(_all_points(table, scale, weights, tables, group, num_groups), num_codes)
        if found is not None:
            return np.pad(found, ((0, num_codes - len(found)), (0, 0)))
        each = sample_weights.repeat_interleave(num_groups // tables)
        return _by_k_means(points, each.numpy(), num_codes, runs, np.random.SeedSequence([seed, group]), iterations)

    def of_groups(groups: Sequence[int]) -> Arrays:
        found = []
        with fast_search(), _workers(len(groups)) as pool:
            for one in pool.map(of_group, groups):
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


def _sample(
    table: DenseTable, scale: float, weights: Tensor, num_codes: int, per_row: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Sample rows, or return all rows with a weight, times the scale: rows float32 [m, d] and weights float64 [m].

    Args:
        table: rows [n, d].
        scale: power of two.
        weights: float64 [n].
        num_codes: number of codes K per group.
        per_row: number of sub-vectors of a row for one set of centroids.
        seed: random seed, at least 0.
    """
    wanted = most_points(num_codes) // per_row
    most = max(2 * num_codes, min(wanted, _SAMPLE_NUMBERS // table.embedding_dim))  # faiss refuses fewer than K
    chances = _chances(weights, most)
    chosen = torch.from_numpy(np.random.default_rng(seed).random(len(weights))) < chances
    ids = chosen.nonzero().flatten()
    places = table.places(max(1, len(ids)))  # one empty place if no row has a weight
    rows = [(table.rows(ids[place]) * scale).float() for place in places]
    return torch.cat(rows), (weights / chances)[chosen]


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


def _points(rows: Tensor, tables: int, group: int, num_groups: int) -> NDArray[np.float32]:
    """Return sub-vectors [m, s] of a group of rows [m, d], or of all groups [m D, s]; no zero is negative."""
    groups = rows.unflatten(1, (num_groups, -1))
    points = groups[:, group] if tables > 1 else groups.flatten(0, 1)
    array: NDArray[np.float32] = (points + 0.0).contiguous().numpy()
    return array


def _all_points(
    table: DenseTable, scale: float, weights: Tensor, tables: int, group: int, num_groups: int
) -> Iterator[NDArray[np.float32]]:
    """Yield the sub-vectors of all rows with a weight, block by block."""
    begin = 0
    for block in table.blocks(table.num_embeddings):
        counted = block[weights[begin : begin + len(block)] > 0]
        yield _points((counted * scale).float(), tables, group, num_groups)
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
    seed: np.random.SeedSequence,
    iterations: int,
) -> NDArray[np.float32]:
    """Return centroids [K, s] of points [m, s] with m > K."""
    mean = np.average(points, 0, weights)
    centred = (points - mean).astype(np.float32)
    number = int(seed.generate_state(1)[0] >> 1)  # an int of C
    is_even = weights.max() <= _PART * weights.mean()  # a part lacks most of the few rows that count
    if runs == 1 or not is_even or len(points) <= max(_MANY, _MANY_PER_CODE * num_codes):
        return (_train(centred, weights, num_codes, runs, number, iterations) + mean).astype(np.float32)
    some = np.random.default_rng(seed).choice(len(points), len(points) // _PART, replace=False)
    first = _train(centred[some], weights[some], num_codes, runs, number, iterations)
    return (_train(centred, weights, num_codes, 1, number, iterations, first) + mean).astype(np.float32)


def _train(
    points: NDArray[np.float32],
    weights: NDArray[np.float64],
    num_codes: int,
    runs: int,
    seed: int,
    iterations: int,
    first: NDArray[np.float32] | None = None,
) -> NDArray[np.float32]:
    """Return centroids of points, from random ones or from ``first``."""
    import faiss  # noqa: PLC0415

    search = faiss.Kmeans(
        points.shape[1],
        num_codes,
        niter=iterations,
        nredo=runs,
        seed=seed,
        min_points_per_centroid=1,  # faiss warns below 39 points and samples above 256
        max_points_per_centroid=len(points),
    )
    # With a mean weight below 1, faiss would search for a cluster to split forever.
    relative = np.maximum(weights / weights.mean(), _LEAST_WEIGHT).astype(np.float32)
    search.train(points, weights=relative, init_centroids=first)
    found: NDArray[np.float32] = search.centroids  # type: ignore[assignment]  # set by train()
    return found


@contextmanager
def fast_search() -> Iterator[None]:
    """Use matrix products in all searches of faiss: its other way, below 128,000 numbers, takes ten times as long."""
    import faiss  # noqa: PLC0415

    before = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = 1
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = before


def _workers(tables: int) -> ThreadPoolExecutor:
    """Return threads that find centroids side by side: threads of faiss wait for each other after every small step."""
    import faiss  # noqa: PLC0415

    threads = torch.get_num_threads()
    workers = min(threads, tables)
    return ThreadPoolExecutor(workers, initializer=faiss.omp_set_num_threads, initargs=(threads // workers,))
