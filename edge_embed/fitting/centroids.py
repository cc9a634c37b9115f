"""Centroids of the sub-vectors of a dense table, by k-means of faiss.

    V_k  =  sum_{i: c_i = k} w_i x_i / sum_{i: c_i = k} w_i          c_i = argmin_k |x_i - V_k|

Of many rows a sample is taken, row i with probability p_i = min(1, a w_i), and counts w_i / p_i in it, so that sums
are right in the mean. Sub-vectors have their mean taken off, because faiss computes |x|^2 - 2 x V + |V|^2 in float32.
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

# Measured on the embeddings of two language models and on made families of rows: twice the 25 iterations of faiss take
# half a percent off the squared error, three runs in place of one .4 to 9 % more. k-means++ takes off more, but its
# centroids go to the few rows far out: of one of those tables the mean cosine fell from .916 to .909.
# 100 iterations, or five runs, are as good within what one seed differs from another, .0001 of the mean cosine.
ITERATIONS = 50
# Of a million rows, K = 256: 65,536 leave 1.3 % more squared error than 262,144, and 131,072 leave 0.4 %.
_SAMPLE = 1 << 17
_SAMPLE_PER_CODE = 128
_TOGETHER = 16  # groups, which are kept when they are finished: however many threads and processes share them
_SAMPLE_NUMBERS = 1 << 28  # 1 GiB; more only where d is too large for two rows a code
_LEAST_WEIGHT = 1e-30  # of the mean one: faiss divides by sums of weights in float32


def check_faiss() -> None:
    """Refuse to begin without faiss.

    Raises:
        BadInputError: if it is not installed.
    """
    try:
        import faiss  # noqa: F401, PLC0415
    except ImportError as error:
        remedy = "pip install 'edge-embed[compress]'"
        raise BadInputError(f"k-means: faiss cannot be imported ({error}), expected faiss-cpu: {remedy}") from error


def most_points(num_codes: int) -> int:
    """Of how many sub-vectors K centroids are found, about: of a sample where there are more."""
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
) -> Tensor:
    """Centroids of each group of columns, or of all groups together.

    Args:
        table: rows [n, d].
        scale: a power of two that rows are multiplied by.
        weights: what each row counts, float64 [n], at least 0.
        num_codes: K.
        num_groups: D.
        shared: one set of centroids for all groups.
        runs: of k-means, the best of which is taken.
        seed: at least 0.
        kept: those of some groups that are finished.

    Returns:
        float32 [D, K, s], or [1, K, s] when shared, of rows times ``scale``. Where there are at most K different
        sub-vectors, they are the centroids, and the others are zero.
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
        return _by_k_means(points, each.numpy(), num_codes, runs, np.random.SeedSequence([seed, group]))

    def of_groups(groups: Sequence[int]) -> Arrays:
        with fast_search(), _workers(len(groups)) as pool:
            return {"value": np.stack(list(pool.map(of_group, groups)))}

    parts = [range(begin, min(begin + _TOGETHER, tables)) for begin in range(0, tables, _TOGETHER)]
    joined = table.processes.joined
    found = [kept(f"centroids {part.start}", partial(joined, part, of_groups))["value"] for part in parts]
    return torch.from_numpy(np.concatenate(found))


def _sample(
    table: DenseTable, scale: float, weights: Tensor, num_codes: int, per_row: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Some rows, times the scale, or all that count: float32 [m, d], and what they count, float64 [m].

    Args:
        table: rows [n, d].
        scale: a power of two.
        weights: float64 [n].
        num_codes: K.
        per_row: sub-vectors of a row that go to one set of centroids.
        seed: at least 0.
    """
    wanted = most_points(num_codes) // per_row
    most = max(2 * num_codes, min(wanted, _SAMPLE_NUMBERS // table.embedding_dim))  # faiss refuses less than K
    chances = _chances(weights, most)
    chosen = torch.from_numpy(np.random.default_rng(seed).random(len(weights))) < chances
    ids = chosen.nonzero().flatten()
    places = table.places(max(1, len(ids)))  # one, which is empty, if no row counts
    rows = [(table.rows(ids[place]) * scale).float() for place in places]
    return torch.cat(rows), (weights / chances)[chosen]


def _chances(weights: Tensor, most: int) -> Tensor:
    """How likely a row is in the sample, float64 [n]: by its weight, and about ``most`` rows in all."""
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
    """Sub-vectors [m, s] of a group of rows [m, d], or [m D, s] of all of them for one table; no zero is negative."""
    groups = rows.unflatten(1, (num_groups, -1))
    points = groups[:, group] if tables > 1 else groups.flatten(0, 1)
    array: NDArray[np.float32] = (points + 0.0).contiguous().numpy()
    return array


def _all_points(
    table: DenseTable, scale: float, weights: Tensor, tables: int, group: int, num_groups: int
) -> Iterator[NDArray[np.float32]]:
    """Those of all rows that count, block by block."""
    begin = 0
    for block in table.blocks(table.num_embeddings):
        counted = block[weights[begin : begin + len(block)] > 0]
        yield _points((counted * scale).float(), tables, group, num_groups)
        begin += len(block)


def _distinct(blocks: Iterable[NDArray[np.float32]], most: int) -> NDArray[np.float32] | None:
    """The different ones among points [*, s], or None if there are more than ``most``; that shows early as a rule."""
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
) -> NDArray[np.float32]:
    """Centroids [K, s] of points [m, s] with m > K."""
    import faiss  # noqa: PLC0415

    mean = np.average(points, 0, weights)
    search = faiss.Kmeans(
        points.shape[1],
        num_codes,
        niter=ITERATIONS,
        nredo=runs,
        seed=int(seed.generate_state(1)[0] >> 1),  # an int of C
        min_points_per_centroid=1,  # fewer than 39 would be warned of, more than 256 sampled
        max_points_per_centroid=len(points),
    )
    # With a mean below 1, faiss would look for a cluster to split for ever.
    relative = np.maximum(weights / weights.mean(), _LEAST_WEIGHT).astype(np.float32)
    search.train((points - mean).astype(np.float32), weights=relative)
    found: NDArray[np.float32] = search.centroids  # type: ignore[assignment]  # there after train()
    return (found + mean).astype(np.float32)


@contextmanager
def fast_search() -> Iterator[None]:
    """Matrix products in all searches of faiss: for fewer than 128,000 numbers it has a way that takes ten times it."""
    import faiss  # noqa: PLC0415

    before = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = 1
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = before


def _workers(tables: int) -> ThreadPoolExecutor:
    """Threads that find centroids side by side: those of faiss wait for each other after every small step."""
    import faiss  # noqa: PLC0415

    threads = torch.get_num_threads()
    workers = min(threads, tables)
    return ThreadPoolExecutor(workers, initializer=faiss.omp_set_num_threads, initargs=(threads // workers,))
