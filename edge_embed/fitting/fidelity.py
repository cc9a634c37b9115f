"""Reconstruction error of a compressed table C against the dense table E, computed block by block.

    relative error  sqrt(sum_i w_i ||C_i - E_i||^2 / sum_i w_i ||E_i||^2)
    mean cosine     sum_i w_i cos(C_i, E_i) / sum_i w_i
    neighbours      mean_q |N(C, q) and N(E, q)| / 10      N(X, q): the 10 rows of X nearest to row q by cosine

w_i is the frequency of row i, or 1. A zero row of C has cosine 0 if the row of E is not zero.
"""

import zlib
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from edge_embed.errors import BadInputError
from edge_embed.fitting.dense_table import DenseTable, row_weights
from edge_embed.fitting.fitted_table import Stored
from edge_embed.report.results.fidelity import CosineBand, Fidelity

_Best = tuple[NDArray[np.float32], NDArray[np.int64]]  # cosines and ids of the nearest rows, [Q, up to 10] each

_NEIGHBOURS = 10
_SAMPLE = 1000  # rows whose neighbours are compared: this gives the mean to about .01
_MEASURED = 10_000  # rows: the mean cosine of others differs by a few thousandths at most
_MEASURED_NUMBERS = 1 << 22  # of which copies in float64 are in memory
_WORST = 10
_BLOCK_NUMBERS = 1 << 20  # of a block, of which ten are in memory
_TOGETHER = 1 << 13  # rows multiplied with all of the sample at a time
_BANDS = {"most frequent 1%": 0.01, "next 9%": 0.1, "next 40%": 0.5, "the rest": 1.0}  # upper bounds, of all rows


def fidelity(
    table: DenseTable,
    stored: Stored,
    counts: Tensor | None = None,
    on_block: Callable[[int], None] = lambda rows: None,
) -> Fidelity:
    """Compare all rows of a table with those of its compressed form.

    Args:
        table: [n, d].
        stored: compressed form of the same size.
        counts: frequency of each row, numbers >= 0, [n].
        on_block: called with the number of compared rows after each block.

    Raises:
        BadInputError: if sizes differ, or counts are not such numbers.
    """
    n, dim, packed = table.num_embeddings, table.embedding_dim, stored.plain
    if (packed.num_embeddings, packed.embedding_dim) != (n, dim):
        got = f"[{packed.num_embeddings}, {packed.embedding_dim}]"
        raise BadInputError(f"packed: got {got}, expected [{n}, {dim}], the size of the dense table")
    weights = row_weights(counts, n, packed.padding_idx).numpy()
    neighbours = _Neighbours(table, stored, sample(n, _SAMPLE, seed=0).numpy())
    energy = error = 0.0
    cosines = np.empty(n)  # NaN for zero rows of the dense table

    def compared(place: slice) -> tuple[float, float, NDArray[np.float64], list[_Best]]:
        dense, rows = table.block(place), torch.from_numpy(stored.rows_float64(np.arange(place.start, place.stop)))
        squares, counted = dense.square().sum(1), torch.from_numpy(weights[place])
        found = _cosines(dense, rows).masked_fill(squares == 0, torch.nan).numpy()
        off = (rows - dense).square().sum(1)
        return float(counted @ squares), float(counted @ off), found, neighbours.of(place.start, dense, rows)

    places = list(table.places(n, numbers=_BLOCK_NUMBERS))
    for place, (length, off, found, nearest) in zip(places, table.processes.each(places, compared), strict=True):
        energy += length
        error += off
        cosines[place] = found
        neighbours.add(nearest)
        on_block(place.stop)

    def summary() -> Fidelity:
        directed = ~np.isnan(cosines)
        near, counted = (cosines, weights) if directed.all() else (cosines[directed], weights[directed])  # no copies
        least = _least(near, _WORST)
        rows = least if len(near) == n else np.flatnonzero(directed)[least]
        return Fidelity(
            float(np.sqrt(error / energy)) if energy else 0.0,
            float(counted @ near / counted.sum()) if counted.any() else 1.0,
            _bands(near, None if counts is None else counted),
            neighbours.share(directed),
            tuple((int(row), float(near[at])) for row, at in zip(rows, least, strict=True)),
            table.nbytes,
            stored.nbytes,
            sum(map(_zipped, stored.arrays().values())),
        )

    return table.processes.same(summary)  # all processes must decide alike


def nearness(dense: Tensor, rows: Tensor, weights: Tensor) -> tuple[float, float]:
    """Return mean cosine and relative error of some rows.

    Args:
        dense: float64 [m, d].
        rows: compressed rows, float64 [m, d].
        weights: weight of each row, float64 [m].
    """
    squares = dense.square().sum(1)
    cosines = _cosines(dense, rows)
    weights = weights * (squares > 0)
    if not weights.any():
        return 1.0, 0.0
    error = weights @ (rows - dense).square().sum(1) / (weights @ squares)
    return float(weights @ cosines / weights.sum()), float(error.sqrt())


def closeness(
    dense: Tensor, rows: Tensor, weights: Tensor, directions: Tensor | None
) -> tuple[float, float, float | None]:
    """Return `nearness` of some rows, and their error behind the next layer.

    Args:
        dense: float64 [m, d].
        rows: compressed rows, float64 [m, d].
        weights: weight of each row, float64 [m].
        directions: L of the next layer, float64 [d, d] (`edge_embed.fitting.next_layer`), or None.
    """
    behind = None if directions is None else _error_behind(dense @ directions, rows @ directions, weights)
    return *nearness(dense, rows, weights), behind


def next_layer_error(table: DenseTable, stored: Stored, counts: Tensor | None, directions: Tensor) -> float:
    """Return the error of a sample of rows behind the next layer, as `closeness`, with frequencies [n]."""
    ids = measured(table.num_embeddings, table.embedding_dim, seed=0)
    weights = row_weights(counts, table.num_embeddings, stored.plain.padding_idx)[ids]
    dense, rows = table.rows(ids), torch.from_numpy(stored.rows_float64(ids.numpy()))
    return table.processes.same(lambda: _error_behind(dense @ directions, rows @ directions, weights))


def _error_behind(expected: Tensor, found: Tensor, weights: Tensor) -> float:
    """Return the root of the weighted mean of min(1, ||y_i - x_i||^2 / ||x_i||^2), over the rows x_i that are not zero.

    Each row counts by its own length, as in a cosine. A row of zeros has the error 1.
    """
    squares = expected.square().sum(1)
    weights = weights * (squares > 0)
    if not weights.any():
        return 0.0
    errors = (found - expected).square().sum(1) / squares.clamp(min=torch.finfo(torch.float64).tiny)
    return float((weights @ errors.clamp(max=1) / weights.sum()).sqrt())


def sample(count: int, most: int, seed: int) -> Tensor:
    """Draw at most ``most`` of ``count`` places, in ascending order, int64."""
    if count <= most:
        return torch.arange(count)
    return torch.randperm(count, generator=torch.Generator().manual_seed(seed))[:most].sort().values


def measured(count: int, dim: int, seed: int) -> Tensor:
    """Draw the places of rows to measure, of ``count`` rows of ``dim`` columns: 10,000, or fewer if they are long."""
    return sample(count, min(_MEASURED, max(_SAMPLE, _MEASURED_NUMBERS // dim)), seed)


def _cosines(dense: Tensor, rows: Tensor) -> Tensor:
    return functional.cosine_similarity(dense, rows, eps=torch.finfo(torch.float64).tiny)


def _least(numbers: NDArray[np.float64], count: int) -> NDArray[np.int64]:
    """Return the places of the smallest numbers, ascending, ties in order; a full sort would double the memory."""
    if len(numbers) <= count:
        return np.argsort(numbers, kind="stable")
    few = np.flatnonzero(numbers <= np.partition(numbers, count - 1)[count - 1])
    return few[np.argsort(numbers[few], kind="stable")[:count]]


def _bands(cosines: NDArray[np.float64], counts: NDArray[np.float64] | None) -> tuple[CosineBand, ...]:
    if not len(cosines):
        return ()
    if counts is None:
        return (_band("all", cosines),)
    order = np.argsort(-counts, kind="stable")
    bands, begin = [], 0
    for name, share in _BANDS.items():
        end = int(np.ceil(share * len(order)))
        if end > begin:
            bands.append(_band(name, cosines[order[begin:end]]))
        begin = end
    return tuple(bands)


def _band(name: str, cosines: NDArray[np.float64]) -> CosineBand:
    return CosineBand(name, len(cosines), float(cosines.mean()), float(cosines.min()))


class _Neighbours:
    """Nearest rows of a sample of rows, in both tables, which are read block by block.

    Args:
        table: [n, d].
        stored: compressed form of the same size.
        ids: ids of the sample in ascending order, [Q].
    """

    def __init__(self, table: DenseTable, stored: Stored, ids: NDArray[np.int64]) -> None:
        self._sample = ids
        rows = table.rows(torch.from_numpy(ids)), torch.from_numpy(stored.rows_float64(ids))
        self._queries = [_directions(each) for each in rows]
        self._best = [self._none()] * 2

    def of(self, begin: int, *blocks: Tensor) -> list[_Best]:
        """Return the nearest rows among the rows of both tables from ``begin`` on, [B, d] each."""
        best = [self._none()] * len(blocks)
        for first in range(0, len(blocks[0]), _TOGETHER):
            some = [block[first : first + _TOGETHER] for block in blocks]
            best = self._nearer(best, self._of_few(begin + first, *some))
        return [(values.numpy(), ids.numpy()) for values, ids in best]

    def _of_few(self, begin: int, *blocks: Tensor) -> list[tuple[Tensor, Tensor]]:
        own = np.flatnonzero((self._sample >= begin) & (self._sample < begin + len(blocks[0])))
        found = []
        for queries, block in zip(self._queries, blocks, strict=True):
            scores = queries @ _directions(block).T  # [Q, B]
            scores[own, self._sample[own] - begin] = -torch.inf
            values, places = _largest(scores)
            found.append((values, places + begin))
        return found

    def _none(self) -> tuple[Tensor, Tensor]:
        return torch.zeros(len(self._sample), 0), torch.zeros(len(self._sample), 0, dtype=torch.int64)

    @staticmethod
    def _nearer(*found: Sequence[tuple[Tensor, Tensor]]) -> list[tuple[Tensor, Tensor]]:
        """Return the nearest rows among results for different rows, for each table."""
        best = []
        for of_table in zip(*found, strict=True):
            values, ids = (torch.cat(each, 1) for each in zip(*of_table, strict=True))
            values, places = _largest(values)
            best.append((values, ids.gather(1, places)))
        return best

    def add(self, nearest: list[_Best]) -> None:
        """Add the nearest rows of one more block."""
        new = [(torch.from_numpy(values), torch.from_numpy(ids)) for values, ids in nearest]
        self._best = self._nearer(self._best, new)

    def share(self, directed: NDArray[np.bool_]) -> float | None:
        """Return the share of nearest rows that are the same in both tables, over sampled rows with a direction.

        Args:
            directed: whether each row of the dense table has a direction, [n].
        """
        asked = np.flatnonzero(directed[self._sample])
        if not len(asked) or np.count_nonzero(directed) <= _NEIGHBOURS:
            return None
        near = (ids.numpy()[asked] for _, ids in self._best)
        return float(np.mean([len(np.intersect1d(*both)) / _NEIGHBOURS for both in zip(*near, strict=True)]))


def _largest(scores: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest of scores [Q, rows], with their places."""
    values, places = scores.topk(min(_NEIGHBOURS, scores.shape[1]))
    return values, places


def _directions(rows: Tensor) -> Tensor:
    return functional.normalize(rows, eps=torch.finfo(torch.float64).tiny).float()


def _zipped(array: NDArray[np.generic]) -> int:
    return len(zlib.compress(np.ascontiguousarray(array).data, 6))
