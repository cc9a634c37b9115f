"""How near a compressed table C is to the dense one E, from both, block by block.

    relative error  sqrt(sum_i w_i ||C_i - E_i||^2 / sum_i w_i ||E_i||^2)
    mean cosine     sum_i w_i cos(C_i, E_i) / sum_i w_i
    neighbours      mean_q |N(C, q) and N(E, q)| / 10      N(X, q): the 10 rows of X nearest to row q by cosine

w_i: how often row i comes up, or 1. A row of C that is zero where that of E is not has cosine 0.
"""

import zlib
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from edge_embed.compression.dense import DenseTable, row_weights
from edge_embed.errors import BadInputError
from edge_embed.packed.form import Packed
from edge_embed.report.fidelity import CosineBand, Fidelity

_NEIGHBOURS = 10
_SAMPLE = 1000  # rows whose neighbours are looked for: the mean is known to about .01 then
_WORST = 10
_BANDS = {"most frequent 1%": 0.01, "next 9%": 0.1, "next 40%": 0.5, "the rest": 1.0}  # of all rows, up to


def fidelity(table: DenseTable, packed: Packed, counts: Tensor | None = None) -> Fidelity:
    """Compare all rows of a table with those of its packed form.

    Args:
        table: [n, d].
        packed: of the same size.
        counts: how often each row comes up, numbers >= 0, [n].

    Raises:
        BadInputError: if sizes differ, or counts are no such numbers.
    """
    n, dim = table.num_embeddings, table.embedding_dim
    if (packed.num_embeddings, packed.embedding_dim) != (n, dim):
        got = f"[{packed.num_embeddings}, {packed.embedding_dim}]"
        raise BadInputError(f"packed: got {got}, expected [{n}, {dim}] as the dense table")
    weights = row_weights(counts, n, packed.padding_idx).numpy()
    squares, errors, cosines = (np.concatenate(parts) for parts in zip(*_compared(table, packed), strict=True))
    has_cosine = ~np.isnan(cosines)
    counted = weights * has_cosine
    energy = float(weights @ squares)
    ids = np.flatnonzero(has_cosine)
    worst = ids[np.argsort(cosines[ids], kind="stable")[:_WORST]]
    return Fidelity(
        float(np.sqrt(weights @ errors / energy)) if energy else 0.0,
        float(counted @ np.nan_to_num(cosines) / counted.sum()) if counted.any() else 1.0,
        _bands(ids, cosines, None if counts is None else weights),
        _neighbours(table, packed, ids),
        tuple((int(row), float(cosines[row])) for row in worst),
        table.nbytes,
        packed.nbytes,
        sum(_zipped(array) for array in packed.tensors().values()),
    )


def _blocks(table: DenseTable, packed: Packed) -> Iterator[tuple[Tensor, Tensor]]:
    """Rows of both, float64 [Q, d] each, in order."""
    begin = 0
    for block in table.blocks(table.num_embeddings):
        rows = packed.rows_float64(np.arange(begin, begin + len(block)))
        yield block, torch.from_numpy(rows)
        begin += len(block)


def _compared(table: DenseTable, packed: Packed) -> Iterator[tuple[NDArray[np.float64], ...]]:
    """Of each block ||E_i||^2, ||C_i - E_i||^2 and cosines, [Q] each; NaN for rows of E that are zero."""
    for dense, rows in _blocks(table, packed):
        cosines = functional.cosine_similarity(dense, rows, eps=torch.finfo(torch.float64).tiny)
        squares = dense.square().sum(1)
        cosines[squares == 0] = torch.nan
        yield squares.numpy(), (rows - dense).square().sum(1).numpy(), cosines.numpy()


def _bands(
    ids: NDArray[np.int64], cosines: NDArray[np.float64], counts: NDArray[np.float64] | None
) -> tuple[CosineBand, ...]:
    if counts is None or not len(ids):
        return (_band("all", cosines[ids]),) if len(ids) else ()
    order = ids[np.argsort(-counts[ids], kind="stable")]
    bands, begin = [], 0
    for name, share in _BANDS.items():
        end = int(np.ceil(share * len(order)))
        if end > begin:
            bands.append(_band(name, cosines[order[begin:end]]))
        begin = end
    return tuple(bands)


def _band(name: str, cosines: NDArray[np.float64]) -> CosineBand:
    return CosineBand(name, len(cosines), float(cosines.mean()), float(cosines.min()))


def _neighbours(table: DenseTable, packed: Packed, ids: NDArray[np.int64]) -> float | None:
    """The share of nearest rows that are the same, over some of ``ids``, rows that have a direction."""
    if len(ids) <= _NEIGHBOURS:
        return None
    sample = np.sort(np.random.default_rng(0).permutation(ids)[:_SAMPLE])
    near = _nearest(table, packed, sample)
    same = [len(np.intersect1d(*both)) / _NEIGHBOURS for both in zip(*near, strict=True)]
    return float(np.mean(same))


def _nearest(table: DenseTable, packed: Packed, sample: NDArray[np.int64]) -> tuple[NDArray[np.int64], ...]:
    """Ids of the rows nearest to each row of the sample, the row itself left out: int64 [Q, 10], of both tables."""
    queries = (
        _directions(table.rows(torch.from_numpy(sample))),
        _directions(torch.from_numpy(packed.rows_float64(sample))),
    )
    best = [(query.new_full((len(sample), 0), 0), torch.zeros(len(sample), 0, dtype=torch.int64)) for query in queries]
    begin = 0
    for blocks in _blocks(table, packed):
        for at, (query, block) in enumerate(zip(queries, blocks, strict=True)):
            scores = query @ _directions(block).T  # [Q, rows]
            own = (sample >= begin) & (sample < begin + len(block))
            scores[np.flatnonzero(own), sample[own] - begin] = -torch.inf
            best[at] = _best(best[at], scores, begin)
        begin += len(blocks[0])
    return tuple(ids.numpy() for _, ids in best)


def _best(known: tuple[Tensor, Tensor], scores: Tensor, begin: int) -> tuple[Tensor, Tensor]:
    """The largest of those known and of a block's scores [Q, rows], with their ids."""
    values, places = scores.topk(min(_NEIGHBOURS, scores.shape[1]))
    values, ids = torch.cat((known[0], values), 1), torch.cat((known[1], places + begin), 1)
    values, places = values.topk(min(_NEIGHBOURS, values.shape[1]))
    return values, ids.gather(1, places)


def _directions(rows: Tensor) -> Tensor:
    return functional.normalize(rows, eps=torch.finfo(torch.float64).tiny).float()


def _zipped(array: NDArray[np.generic]) -> int:
    return len(zlib.compress(np.ascontiguousarray(array).data, 6))
