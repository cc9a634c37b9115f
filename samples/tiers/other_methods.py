"""Methods of other authors and libraries, on the rows of one table.

    rounding, rows / columns    integers of 2 to 8 bits, with a minimum and a step for each row or column
    pq, opq                     weighted k-means in groups of columns, alone or after a rotation (faiss)
    residual, additive          sums of whole rows of several codebooks (faiss: RQ and LSQ)
    svd                         the best matrix of a rank
    hashing                     rows with the same remainder share their mean
    quotient-remainder          products of two small tables
    cce                         for each part of the columns, a centroid plus a shared remainder row
    clusters                    one row for each cluster, the way that model2vec quantises a vocabulary

Codes of a row are packed into whole bytes, and all other numbers are float16; there is no further overhead. Weights of
rows are their frequencies, where a method has weights.
Sources: Shi and others, "Compositional Embeddings Using Complementary Partitions" (2020); Tsang and Ahle, "Clustering
the Sketch" (2023); Weinberger and others, "Feature Hashing for Large Scale Multitask Learning" (2009).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import faiss
import numpy as np
import torch
from baselines.trained import PRIME
from numpy.typing import NDArray

from edge_embed.errors import SizeError
from tiers.case import Case, weight_of
from tiers.contenders import Contender, Made, most_that_fit

Rows = NDArray[np.float32]
Weights = NDArray[np.float64]
Fitted = tuple[Rows, int, str]  # rows, bytes, setting
Fit = Callable[[Rows, Weights, int, int], Fitted]  # rows [n, d], weights [n], bytes, seed

_HALF = 2  # bytes of a float16 number
_TINY = np.finfo(np.float32).tiny
_BITS = range(8, 1, -1)
_CODE_BITS, _MOST_BOOKS = (4, 6, 8), 64
_ROUNDS = 20
_TRAINED = 10_000  # rows at most that a rotation is trained on
_PARTS = 4  # of the columns, in CCE


def each_table(fit: Fit) -> Contender:
    """Return a contender that fits each table of a case to its share of the bytes."""

    def make(case: Case, ratio: float, seed: int) -> Made:
        rows, total, settings = {}, 0, []
        for name, counts in case.counts.items():
            weight = weight_of(case.model, name).detach().numpy()
            weights = np.asarray(counts, np.float64) + 0.5  # a row that never occurred may occur later
            found, nbytes, setting = fit(weight, weights, int(weight.nbytes / ratio), seed)
            rows[name], total = torch.from_numpy(found), total + nbytes
            settings.append(setting)
        return rows, total, "; ".join(settings)

    return make


def rounded(rows: Rows, weights: Weights, nbytes: int, seed: int, axis: int) -> Fitted:
    """Round every row (axis 1) or column (axis 0) to the most bits that fit, between its least and largest number."""
    n, dim = rows.shape
    for bits in _BITS:
        size = n * -(-dim * bits // 8) + 2 * _HALF * (n if axis == 1 else dim)
        if size <= nbytes:
            least, largest = (edge(rows, axis=axis, keepdims=True) for edge in (np.min, np.max))
            first, step = _in_half(least), _in_half((largest - least) / (2**bits - 1))
            codes = np.clip(np.rint((rows - first) / np.maximum(step, _TINY)), 0, 2**bits - 1)
            return (codes * step + first).astype(np.float32), size, f"{bits} bits"
    raise SizeError(f"rounding: 2 bits do not fit into {nbytes:,} bytes")


def product_quantised(rows: Rows, weights: Weights, nbytes: int, seed: int, rotates: bool) -> Fitted:
    """Return the best product quantisation of 2^4, 2^6 or 2^8 codes, after a learned rotation or without."""
    n, dim = rows.shape
    left = nbytes - rotates * _HALF * dim * dim
    found = []
    for bits in _CODE_BITS:
        fitting = [m for m in _divisors(dim) if _codes(n, m, bits) + _HALF * dim * 2**bits <= left]
        if fitting and n >= 2**bits:
            groups = max(fitting)
            rotation = _rotation(rows, groups, bits, seed) if rotates else np.eye(dim, dtype=np.float32)
            quantised = _groups(rows @ rotation.T, weights, groups, bits, seed) @ rotation
            size = nbytes - left + _codes(n, groups, bits) + _HALF * dim * 2**bits
            found.append((quantised, size, f"K={2**bits} D={groups}"))
    return _best(rows, weights, found, "product quantisation", nbytes)


def _groups(rows: Rows, weights: Weights, groups: int, bits: int, seed: int) -> Rows:
    """Return rows whose groups of columns are each replaced by the nearest of 2^bits centres."""
    found = []
    for group, columns in enumerate(np.split(rows, groups, axis=1)):
        centres, cluster = _kmeans(np.ascontiguousarray(columns), weights, 2**bits, seed + group)
        found.append(centres[cluster])
    return np.hstack(found)


def _rotation(rows: Rows, groups: int, bits: int, seed: int) -> Rows:
    """Return the rotation of OPQ, float16 numbers [d, d]."""
    dim = rows.shape[1]
    quantizer: Any = faiss.ProductQuantizer(dim, groups, bits)
    quantizer.cp.seed = seed + 1
    rotation: Any = faiss.OPQMatrix(dim, groups)
    rotation.pq = quantizer
    rotation.max_train_points = _TRAINED
    rotation.train(rows)
    found: Rows = _in_half(faiss.vector_to_array(rotation.A)).reshape(dim, dim)
    return found


def residual(rows: Rows, weights: Weights, nbytes: int, seed: int) -> Fitted:
    """Return the best sum of whole rows of codebooks, each fitted to what the codebooks before it leave."""
    n, dim = rows.shape
    found = []
    for bits in _CODE_BITS:
        size = partial(_books_bytes, n, dim, bits)
        books = most_that_fit(_MOST_BOOKS, size, nbytes)
        if books and n >= 2**bits:
            quantizer: Any = faiss.ResidualQuantizer(dim, books, bits)
            quantizer.cp.seed = seed + 1
            found.append((_decoded(quantizer, rows), size(books), f"{books} x {2**bits}"))
    return _best(rows, weights, found, "sums of codebooks", nbytes)


def additive(rows: Rows, weights: Weights, nbytes: int, seed: int) -> Fitted:
    """Return a sum of as many codebooks as `residual` selects, which are fitted together."""
    _, size, setting = residual(rows, weights, nbytes, seed)
    books, codes = map(int, setting.split(" x "))
    quantizer: Any = faiss.LocalSearchQuantizer(rows.shape[1], books, codes.bit_length() - 1)
    quantizer.random_seed = seed + 1
    return _decoded(quantizer, rows), size, setting


def _books_bytes(n: int, dim: int, bits: int, books: int) -> int:
    return _codes(n, books, bits) + books * _HALF * dim * (1 << bits)


def _decoded(quantizer: Any, rows: Rows) -> Rows:
    """Train a quantiser of faiss, and return the sums of its codebooks for rows."""
    quantizer.train(rows)
    codes = quantizer.compute_codes(rows)
    faiss.copy_array_to_vector(_in_half(faiss.vector_to_array(quantizer.codebooks)), quantizer.codebooks)
    found: Rows = quantizer.decode(codes)
    return found


def low_rank(rows: Rows, weights: Weights, nbytes: int, seed: int) -> Fitted:
    """Return the best matrix of the largest rank that fits, its factors in float16."""
    rank = nbytes // (_HALF * sum(rows.shape))
    if rank == 0:
        raise SizeError(f"svd: a rank of 1 does not fit into {nbytes:,} bytes")
    left, sizes, right = np.linalg.svd(rows, full_matrices=False)
    root = np.sqrt(sizes[:rank])
    product: Rows = _in_half(left[:, :rank] * root) @ _in_half(root[:, None] * right[:rank])
    return product, _HALF * rank * sum(rows.shape), f"rank {rank}"


def hashed(rows: Rows, weights: Weights, nbytes: int, seed: int) -> Fitted:
    """Return the mean of all rows of a bucket in place of each of them."""
    n, dim = rows.shape
    buckets = min(n, nbytes // (_HALF * dim))
    if buckets == 0:
        raise SizeError(f"hashing: no row fits into {nbytes:,} bytes")
    bucket = _hash(n, buckets, seed)
    return _means(rows, weights, bucket, buckets)[bucket], _HALF * dim * buckets, f"{buckets:,} rows"


def quotient_remainder(rows: Rows, weights: Weights, nbytes: int, seed: int) -> Fitted:
    """Return products of a row of the quotients and one of the remainders, fitted in turns by least squares."""
    n, dim = rows.shape
    most = nbytes // (_HALF * dim)
    fitting = [m for m in range(1, n + 1) if m + -(-n // m) <= most]
    if not fitting:
        raise SizeError(f"quotient-remainder: two tables do not fit into {nbytes:,} bytes")
    remainders = max(fitting)
    quotients = -(-n // remainders)
    high, low = np.divmod(np.arange(n), remainders)
    small = [np.ones((quotients, dim)), _means(rows, weights, low, remainders).astype(np.float64)]
    for turn in range(2 * _ROUNDS):
        own, other = (high, low) if turn % 2 == 0 else (low, high)
        factor = small[1 - turn % 2][other]
        above, below = (np.zeros_like(small[turn % 2]) for _ in range(2))
        np.add.at(above, own, weights[:, None] * factor * rows)
        np.add.at(below, own, weights[:, None] * factor**2)
        small[turn % 2] = above / np.maximum(below, _TINY)
    factors = [_in_half(table.astype(np.float32)) for table in small]
    return factors[0][high] * factors[1][low], _HALF * dim * (quotients + remainders), f"{quotients:,} x {remainders:,}"


def clustered(rows: Rows, weights: Weights, nbytes: int, seed: int) -> Fitted:
    """Return the centre of its cluster in place of each row."""
    n, dim = rows.shape
    clusters = most_that_fit(n, lambda k: _HALF * dim * k + _codes(n, 1, _width(k)), nbytes)
    if clusters == 0:
        raise SizeError(f"clusters: no row fits into {nbytes:,} bytes")
    centres, cluster = _kmeans(rows, weights, clusters, seed)
    return centres[cluster], _HALF * dim * clusters + _codes(n, 1, _width(clusters)), f"{clusters:,} rows"


def clustered_and_hashed(rows: Rows, weights: Weights, nbytes: int, seed: int) -> Fitted:
    """Return, for each part of the columns, the centre of a cluster plus the mean error of a bucket (CCE)."""
    n, dim = rows.shape
    clusters = most_that_fit(n, lambda k: 2 * _HALF * dim * k + _codes(n, _PARTS, _width(k)), nbytes)
    if clusters == 0:
        raise SizeError(f"cce: no row fits into {nbytes:,} bytes")
    found = []
    for part, columns in enumerate(np.array_split(rows, _PARTS, axis=1)):
        centres, cluster = _kmeans(np.ascontiguousarray(columns), weights, clusters, seed + part)
        bucket = _hash(n, clusters, seed + part)
        found.append(centres[cluster] + _means(columns - centres[cluster], weights, bucket, clusters)[bucket])
    size = 2 * _HALF * dim * clusters + _codes(n, _PARTS, _width(clusters))
    return np.hstack(found).astype(np.float32), size, f"{_PARTS} x {clusters:,}"


def _divisors(dim: int) -> list[int]:
    return [m for m in range(1, dim + 1) if dim % m == 0]


def _codes(n: int, groups: int, bits: int) -> int:
    """Return the bytes of codes of ``bits``, each row packed on its own."""
    return n * -(-groups * bits // 8)


def _width(count: int) -> int:
    """Return the bits of a code of ``count`` values."""
    return max(1, (count - 1).bit_length())


def _best(rows: Rows, weights: Weights, found: Sequence[Fitted], name: str, nbytes: int) -> Fitted:
    """Return the result with the least squared error, weighted by frequency."""
    if not found:
        raise SizeError(f"{name}: no setting fits into {nbytes:,} bytes")
    return min(found, key=lambda each: float(weights @ np.square(each[0] - rows).sum(1)))


def _in_half(numbers: Rows) -> Rows:
    """Return float32 numbers rounded to float16."""
    return numbers.astype(np.float16).astype(np.float32)


def _hash(n: int, buckets: int, seed: int) -> NDArray[np.int64]:
    """Return a bucket for each id, [n]."""
    return (np.arange(1, n + 1, dtype=np.uint64) * np.uint64(PRIME + 2 * seed) >> np.uint64(7)).astype(
        np.int64
    ) % buckets


def _means(rows: Rows, weights: Weights, group: NDArray[np.int64], count: int) -> Rows:
    """Return the weighted mean of the rows of each group in float16 numbers, [count, d]; zero for an empty group."""
    sums, total = np.zeros((count, rows.shape[1])), np.zeros(count)
    np.add.at(sums, group, weights[:, None] * rows)
    np.add.at(total, group, weights)
    means: Rows = (sums / np.maximum(total, np.finfo(np.float64).tiny)[:, None]).astype(np.float32)
    return _in_half(means)


def _kmeans(rows: Rows, weights: Weights, clusters: int, seed: int) -> tuple[Rows, NDArray[np.int64]]:
    """Return centres [clusters, d] in float16 numbers, and the cluster of each row [n]."""
    found: Any = faiss.Kmeans(
        rows.shape[1], clusters, niter=_ROUNDS, seed=seed + 1, min_points_per_centroid=1, max_points_per_centroid=2**20
    )
    found.train(rows, weights=weights.astype(np.float32))
    _, cluster = found.index.search(rows, 1)
    return _in_half(found.centroids), cluster[:, 0]


OTHERS: dict[str, Contender] = {
    "rounding, rows": each_table(partial(rounded, axis=1)),
    "rounding, columns": each_table(partial(rounded, axis=0)),
    "pq": each_table(partial(product_quantised, rotates=False)),
    "opq (faiss)": each_table(partial(product_quantised, rotates=True)),
    "residual": each_table(residual),
    "additive": each_table(additive),
    "svd": each_table(low_rank),
    "hashing": each_table(hashed),
    "quotient-remainder": each_table(quotient_remainder),
    "cce": each_table(clustered_and_hashed),
    "clusters": each_table(clustered),
}
