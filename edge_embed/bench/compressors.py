"""Contenders in compressing a dense table: our fits, and for each method a library with the same number of bytes.

    dpq       faiss ProductQuantizer: k-means of as many runs on as many rows, to the same error, then codes of all rows
    tt        tensorly: TT-SVD of the same tensor, with the same ranks and order of cores
    low_rank  numpy: all singular values and vectors; scipy: the R largest (Lanczos)
    ant       scikit-learn: a dictionary by mini-batches, then orthogonal matching pursuit with m weights a row

Each result is computed from the float32 table. The ``what`` of a contender states its preparation before the clock
runs.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from edge_embed.bench.peers.peer import missing
from edge_embed.bench.tables import LeftOutError
from edge_embed.fitting.centroids import most_points
from edge_embed.fitting.checkpoints import NOTHING
from edge_embed.fitting.code_assignment import packed_codes
from edge_embed.fitting.dense_table import DenseTable
from edge_embed.fitting.setting import Setting
from edge_embed.layers.tt import TTEmbedding
from edge_embed.methods import Parts
from edge_embed.packed.ant_shape import ANTShape
from edge_embed.packed.bits import bits_for
from edge_embed.packed.dpq import PackedDPQ

Rows = NDArray[np.floating[Any]]
_RUNS = 3  # runs of k-means, as in `dpq.fit`
_ITERATIONS = 50  # with which faiss reaches the error of `dpq.fit`
_TURNS = 20  # passes over the rows, as in `ant.fit`
_LIMITS = ("threadpoolctl", "threadpoolctl")  # gives numpy and scipy the same number of threads


@dataclass(frozen=True)
class Made:
    """Compressed table.

    Attributes:
        nbytes: bytes of its tensors.
        rows: returns all rows [n, d] that it represents.
    """

    nbytes: int
    rows: Callable[[], Rows]


@dataclass(frozen=True)
class Case:
    """One table and setting to compress.

    Attributes:
        weight: float32 [n, d].
        setting: method and sizes.
        seed: random seed.
        threads: threads of every contender.
    """

    weight: NDArray[np.float32]
    setting: Setting
    seed: int
    threads: int

    def __getitem__(self, size: str) -> int:
        return int(self.setting.options[size])


Compress = Callable[[], Made]


@dataclass(frozen=True)
class Compressor:
    """One contender.

    Attributes:
        name: name in reports.
        what: the call that is timed, and the preparation before the clock runs.
        prepare: makes everything ready before the clock runs; raises `LeftOutError` if it cannot take part.
        needs: modules beyond those of every installation, with their names on PyPI.
    """

    name: str
    what: str
    prepare: Callable[[Case], Compress]
    needs: tuple[tuple[str, str], ...] = ()

    def prepared(self, case: Case) -> Compress:
        """Call `prepare` after a check that its libraries are installed.

        Raises:
            LeftOutError: if one is not installed, or it cannot take part.
        """
        for module, package in self.needs:
            if reason := missing(module, package):
                raise LeftOutError(reason)
        return self.prepare(case)


@dataclass(frozen=True)
class Task:
    """Computation that contenders perform: ``table`` for the whole fit, or ``codes`` alone."""

    name: str
    ours: Compressor
    peers: tuple[Compressor, ...]


@dataclass(frozen=True)
class ComparedFit:
    """Part of one method in the benchmark of compression.

    Attributes:
        sizes: options of the grid, with the method's name for each.
        tasks: tasks that are compared.
    """

    sizes: Mapping[str, str]
    tasks: tuple[Task, ...]


METHODS: Parts[ComparedFit] = Parts("compress_bench")


def _ours(case: Case) -> Compress:
    def compress() -> Made:
        stored = case.setting.fit(case.weight, seed=case.seed).stored("never")
        return Made(stored.nbytes, lambda: stored.rows_float64(np.arange(len(case.weight))))

    return compress


def _quantiser(case: Case) -> Any:
    """Return an untrained quantiser of faiss."""
    import faiss  # noqa: PLC0415

    num_codes = case["num_codes"]
    bits = bits_for(num_codes)
    if num_codes != 1 << bits:
        raise LeftOutError(f"got {num_codes} codes per group, expected a power of two")
    faiss.omp_set_num_threads(case.threads)
    return faiss.ProductQuantizer(case.weight.shape[1], case["num_groups"], bits)


def _faiss(case: Case) -> Compress:
    _quantiser(case)

    def compress() -> Made:
        quantiser = _quantiser(case)
        settings = quantiser.cp
        settings.niter, settings.nredo, settings.seed = _ITERATIONS, _RUNS, case.seed + 1
        settings.min_points_per_centroid = 1  # without it, fewer than 39 lead to a warning
        settings.max_points_per_centroid = math.ceil(most_points(case["num_codes"]) / case["num_codes"])
        with _fast_search():
            quantiser.train(case.weight)
        codes = quantiser.compute_codes(case.weight)
        return Made(codes.nbytes + 4 * quantiser.centroids.size(), lambda: quantiser.decode(codes))

    return compress


@contextmanager
def _fast_search() -> Iterator[None]:
    """Use matrix products in all searches of faiss: its other way, below 128,000 numbers, takes ten times as long."""
    import faiss  # noqa: PLC0415

    before = faiss.cvar.distance_compute_blas_threshold
    faiss.cvar.distance_compute_blas_threshold = 1
    try:
        yield
    finally:
        faiss.cvar.distance_compute_blas_threshold = before


def _centroids(case: Case) -> NDArray[np.float32]:
    """Return the centroids of a draft fit, float32 [D, K, s]: only the search for codes is compared."""
    packed = case.setting.fit(case.weight, seed=case.seed, draft=True).layer.to_packed()
    assert isinstance(packed, PackedDPQ)
    return packed.values.astype(np.float32)


def _coded(case: Case, find: Callable[[], NDArray[np.uint8]], values: NDArray[np.float32]) -> Compress:
    def compress() -> Made:
        packed = PackedDPQ(find(), values, case["num_groups"])
        return Made(packed.nbytes, lambda: packed.rows_float64(np.arange(len(case.weight))))

    return compress


def _our_codes(case: Case) -> Compress:
    values, table = _centroids(case), DenseTable(case.weight, None)
    value, num_groups = torch.from_numpy(values), case["num_groups"]
    nearest = torch.eye(table.embedding_dim, dtype=torch.float64)  # what faiss searches for

    def codes() -> NDArray[np.uint8]:
        return packed_codes(table, 1.0, value, num_groups, nearest, NOTHING, lambda _: None)

    return _coded(case, codes, values)


def _codes_of_faiss(case: Case) -> Compress:
    """Search codes with faiss, whose codes have our layout: a bit string per row, lowest bit first.

    Each row begins on a byte boundary.
    """
    import faiss  # noqa: PLC0415

    quantiser, values = _quantiser(case), _centroids(case)
    faiss.copy_array_to_vector(values.reshape(-1), quantiser.centroids)
    return _coded(case, lambda: quantiser.compute_codes(case.weight), values)


def _tensorly(case: Case) -> Compress:
    from tensorly.decomposition import tensor_train  # noqa: PLC0415

    count, dim = case.weight.shape
    layer = TTEmbedding(count, dim, case["rank"], device="meta")
    rows, cols, ranks = layer.row_shape, layer.col_shape, list(layer.ranks)
    padded = np.zeros((math.prod(rows), dim), np.float32)
    padded[:count] = case.weight
    order = [axis for core in range(len(rows)) for axis in (core, len(rows) + core)]
    sizes = [size for pair in zip(rows, cols, strict=True) for size in pair]
    together = padded.reshape(*rows, *cols).transpose(order)  # row and column of each core, side by side
    tensor = np.ascontiguousarray(together.reshape([row * col for row, col in zip(rows, cols, strict=True)]).T)
    back = np.argsort(order)

    def compress() -> Made:
        train = tensor_train(tensor, ranks[::-1])

        def all_rows() -> Rows:
            made: Rows = train.to_tensor().T.reshape(sizes).transpose(back).reshape(-1, dim)[:count]
            return made

        return Made(sum(factor.nbytes for factor in train.factors), all_rows)

    return compress


def _product(left: NDArray[np.float32], right: NDArray[np.float32]) -> Made:
    return Made(left.nbytes + right.nbytes, lambda: left @ right)


def _numpy(case: Case) -> Compress:
    rank = min(case["rank"], *case.weight.shape)

    def compress() -> Made:
        left, sizes, right = np.linalg.svd(case.weight, full_matrices=False)
        return _product(left[:, :rank] * sizes[:rank], right[:rank])

    return compress


def _scipy(case: Case) -> Compress:
    from scipy.sparse.linalg import svds  # noqa: PLC0415

    if case["rank"] >= min(case.weight.shape):
        raise LeftOutError(
            f"got rank {case['rank']}, expected less than {min(case.weight.shape)}, the number of singular values"
        )

    def compress() -> Made:
        left, sizes, right = svds(case.weight, case["rank"], rng=case.seed)
        return _product(left * sizes, right)

    return compress


def _sklearn(case: Case) -> Compress:
    from sklearn.decomposition import MiniBatchDictionaryLearning  # noqa: PLC0415

    count, dim = case.weight.shape
    shape = ANTShape(count, dim, case["num_anchors"], count * case["nonzeros"])

    def compress() -> Made:
        learning = MiniBatchDictionaryLearning(
            case["num_anchors"],
            max_iter=_TURNS,
            transform_algorithm="omp",
            transform_n_nonzero_coefs=case["nonzeros"],
            random_state=case.seed % 2**32,  # the largest seed that it accepts
        )
        weights = learning.fit(case.weight).transform(case.weight)
        return Made(shape.nbytes, lambda: weights @ learning.components_)

    return compress


_FAISS = (("faiss", "faiss-cpu"),)
DPQ = ComparedFit(
    {"codes": "num_codes", "groups": "num_groups"},
    (
        Task(
            "table",
            Compressor("dpq.fit", "whole fit, as in `compress`", _ours),
            (
                Compressor(
                    "faiss PQ",
                    f"ProductQuantizer.train, {_ITERATIONS} iterations, {_RUNS} runs, on as many rows as dpq.fit, then "
                    "compute_codes; distance_compute_blas_threshold = 1, as in dpq.fit; the default is up to ten times "
                    "slower",
                    _faiss,
                    _FAISS,
                ),
            ),
        ),
        Task(
            "codes",
            Compressor("dpq codes", "codes of all rows; centroids and a checked table are given", _our_codes),
            (Compressor("faiss compute_codes", "codes of all rows, with the same centroids", _codes_of_faiss, _FAISS),),
        ),
    ),
)
TT = ComparedFit(
    {"rank": "rank"},
    (
        Task(
            "table",
            Compressor("tt.fit", "whole fit, as in `compress`", _ours),
            (
                Compressor(
                    "tensorly TT-SVD",
                    "tensor_train of the same tensor, last core first, with the same ranks; the tensor is given",
                    _tensorly,
                    (("tensorly", "tensorly"), _LIMITS),
                ),
            ),
        ),
    ),
)
LOW_RANK = ComparedFit(
    {"rank": "rank"},
    (
        Task(
            "table",
            Compressor("low_rank.fit", "whole fit, as in `compress`", _ours),
            (
                Compressor("numpy SVD", "linalg.svd, all singular values", _numpy, (_LIMITS,)),
                Compressor(
                    "scipy svds",
                    "sparse.linalg.svds, as many singular values as the rank",
                    _scipy,
                    (("scipy", "scipy"), _LIMITS),
                ),
            ),
        ),
    ),
)
ANT = ComparedFit(
    {"anchors": "num_anchors", "nonzeros": "nonzeros"},
    (
        Task(
            "table",
            Compressor("ant.fit", "whole fit, as in `compress`; weights above 0, mean number per row given", _ours),
            (
                Compressor(
                    "scikit-learn OMP",
                    f"MiniBatchDictionaryLearning, at most {_TURNS} passes; weights of any sign, number per row given",
                    _sklearn,
                    (("sklearn", "scikit-learn"), _LIMITS),
                ),
            ),
        ),
    ),
)
