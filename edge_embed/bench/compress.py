"""Benchmark ``edge-embed bench --use compress``: fits, measured in rounds against libraries that do the same."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from itertools import product
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from edge_embed.bench.compress_grid import CompressGrid
from edge_embed.bench.compress_tables import CLUSTERED, DenseSubject, random_subject
from edge_embed.bench.compressors import METHODS, Case, Compress, Compressor, Made, Task
from edge_embed.bench.run import Progress, load, torch_threads, versions
from edge_embed.bench.tables import LeftOutError
from edge_embed.errors import BadInputError, one_line
from edge_embed.fitting.fidelity import nearness
from edge_embed.report.results.bench_compress import CompressBench, Compressed, CompressMeasurement
from edge_embed.validation.machine import machine
from edge_embed.validation.timing import Feeds, Times, ratio_of, time_rounds

_METHOD = (
    "Each round runs all contenders in random order, each after a warm-up call, and each computes the whole result "
    "again. CPU time is that of the process. Figures: medians, and median ratios within rounds with 95 % bootstrap "
    "intervals, of CPU time on one thread and of wall time on several. Cosine and error compare all rows with the "
    "dense rows, for one seed; another seed changes the mean cosine of dpq, of every contender, by about 0.0003."
)


def bench_compress(
    grid: CompressGrid,
    file: Path | None = None,
    subjects: Sequence[DenseSubject] | None = None,
    progress: Progress = lambda *_: None,
) -> CompressBench:
    """Measure every setting of the grid.

    Args:
        grid: combinations to measure, and options.
        file: file with the tables; None for random ones.
        subjects: the tables of the file.
        progress: called with (step, done, total).

    Raises:
        BadInputError: if sizes do not fit a table, or the memory is too small.
    """
    random_sizes = product(grid.rows, grid.dim) if subjects is None else ()
    tables = subjects or [random_subject(grid.seed, n, dim) for n, dim in random_sizes]
    settings = [grid.settings(*one.shape) for one in tables]  # all settings are checked before any is measured
    total = len(grid.threads) * sum(len(METHODS[one.method].tasks) for some in settings for one in some)
    state = machine(max(grid.threads))
    del state["runtime"]  # the benchmark does not use it
    state |= versions("torch", "numpy", "scipy", "faiss-cpu", "tensorly", "scikit-learn") | {"load": load()}
    random, found = np.random.default_rng([grid.seed, 1]), list[CompressMeasurement]()
    try:
        for one, some in zip(tables, settings, strict=True):
            weight = one.make()
            for threads, setting in product(grid.threads, some):
                case = Case(weight, setting, grid.seed, threads)
                for task in METHODS[setting.method].tasks:
                    found.append(_measured(one.name, case, task, grid.rounds, random))
                    progress("measured", len(found), total)
    except MemoryError as error:
        raise BadInputError(f"memory: too small for these sizes ({error}); use fewer rows") from error
    method = _METHOD if subjects else f"{CLUSTERED}. {_METHOD}"
    return CompressBench(None if file is None else str(file), grid.seed, grid.rounds, state, method, tuple(found))


class _Calls:
    """Contender that computes one result, and keeps it."""

    calls = 1

    def __init__(self, compress: Compress) -> None:
        self._compress = compress
        self.run()  # does not count

    def set_inputs(self, feeds: Sequence[Feeds]) -> None:
        """Do nothing: the table is the only input."""

    def run(self) -> None:
        """Compute the result."""
        self.made = self._compress()


def _measured(name: str, case: Case, task: Task, rounds: int, random: np.random.Generator) -> CompressMeasurement:
    contenders, reasons = dict[str, Compress](), dict[str, str]()
    for one in (task.ours, *task.peers):
        try:
            contenders[one.name] = one.prepared(case)
        except LeftOutError as error:
            reasons[one.name] = str(error)
    with _threads(case.threads):  # limits all libraries, which are loaded by now
        calls = {task.ours.name: _Calls(contenders.pop(task.ours.name))}
        for peer, compress in contenders.items():
            try:
                calls[peer] = _Calls(compress)
            except Exception as error:  # other libraries may raise anything
                reasons[peer] = f"failed: {one_line(error)}"
        times = time_rounds(calls, lambda: (), rounds, 0, random, cpu_clock=time.process_time_ns)

    def figure(one: Compressor) -> Compressed:
        if one.name in reasons:
            return Compressed(one.name, one.what, reason=reasons[one.name])
        ours = None if one is task.ours else times[task.ours.name]
        return _figure(one, calls[one.name].made, case.weight, times[one.name], ours, random)

    return CompressMeasurement(
        table=name,
        num_embeddings=case.weight.shape[0],
        embedding_dim=case.weight.shape[1],
        dense_bytes=case.weight.nbytes,
        method=case.setting.method,
        setting=str(case.setting),
        task=task.name,
        threads=case.threads,
        ours=figure(task.ours),
        peers=tuple(map(figure, task.peers)),
    )


def _figure(
    one: Compressor,
    made: Made,
    weight: NDArray[np.float32],
    own: Times,
    ours: Times | None,
    random: np.random.Generator,
) -> Compressed:
    rows = torch.from_numpy(made.rows().astype(np.float64))
    cosine, error = nearness(torch.from_numpy(weight).double(), rows, torch.ones(len(rows), dtype=torch.float64))
    return Compressed(
        name=one.name,
        what=one.what,
        cpu_seconds=float(np.median(own.cpu)),
        wall_seconds=float(np.median(own.wall)),
        packed_bytes=made.nbytes,
        mean_cosine=cosine,
        relative_error=error,
        our_cpu_ratio=None if ours is None else ratio_of(ours.cpu, own.cpu, random),
        our_wall_ratio=None if ours is None else ratio_of(ours.wall, own.wall, random),
    )


@contextmanager
def _threads(threads: int) -> Iterator[None]:
    """Limit the threads of torch and, if threadpoolctl is installed, of numpy and scipy."""
    try:
        from threadpoolctl import threadpool_limits  # noqa: PLC0415
    except ImportError:
        threadpool_limits = nullcontext
    with threadpool_limits(threads), torch_threads(threads):
        yield
