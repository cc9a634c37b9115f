"""Run of the benchmark: measures every use of every table and the machine, and draws the plots."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import metadata
from itertools import product
from pathlib import Path

import torch

from edge_embed.bench import native
from edge_embed.bench.file_tables import subjects_of
from edge_embed.bench.grid import Grid
from edge_embed.bench.plot import FILES, draw
from edge_embed.bench.roofs import measure_roofs
from edge_embed.bench.rounds import Contest
from edge_embed.bench.tables import BenchTable, dense_limit
from edge_embed.errors import BadInputError
from edge_embed.files import new_files
from edge_embed.report.results.bench import BenchReport, Measurement
from edge_embed.report.views.svg import check_plots
from edge_embed.validation.machine import machine

Progress = Callable[[str, int, int], None]

_METHOD = (
    "Each round runs all contenders in random order on the same inputs; every call has new inputs. Inputs are "
    "preallocated, and outputs too if the library supports it. Pool threads of ONNX Runtime sleep between calls. warm: "
    "tables were written and read before. cold: a buffer of twice the largest cache is written before each call. "
    "tflite-runtime: each contender has its own process, which measures its calls; one process runs at a time. "
    "Figures: medians, and median ratios within rounds with 95 % bootstrap intervals, of CPU time on one thread and of "
    "wall time on several."
)


def bench(
    grid: Grid,
    file: Path | None = None,
    plots: Path | None = None,
    force: bool = False,
    progress: Progress = lambda *_: None,
) -> BenchReport:
    """Measure the grid, and draw the plots.

    Args:
        grid: combinations to measure, and options.
        file: file whose tables are measured in place of random ones.
        plots: an existing folder for ``ratios.svg`` and ``roofline.svg``; None for no plots.
        force: overwrite them.
        progress: called with (step, done, total).

    Raises:
        BadInputError: if the file or a size of a table is invalid, or plots cannot be drawn or already exist.
        EdgeEmbedError: if there is no operator library.
        ParityError: if our own numbers are wrong.
        OutputError: if the plots cannot be written.
    """
    if plots is None:
        return _measure(grid, file, progress)
    check_plots(", or leave --plot out")
    with new_files([plots / name for name in FILES], force=force) as paths:
        report = _measure(grid, file, progress)
        draw(report, *paths)
    return report


def _measure(grid: Grid, file: Path | None, progress: Progress) -> BenchReport:
    try:
        return _measured(grid, file, progress)
    except MemoryError as error:
        raise BadInputError(
            f"memory: too small for these sizes ({error}); use fewer rows or a smaller batch"
        ) from error


def _measured(grid: Grid, file: Path | None, progress: Progress) -> BenchReport:
    subjects = subjects_of(file, grid.method, grid.uses) if file else grid.subjects()
    total = len(grid.threads) * sum(len(list(grid.calls(use))) for subject in subjects for use in subject.uses)
    found: list[Measurement] = []
    state = machine(max(grid.threads)) | versions("torch", "scipy", "faiss-cpu", "ai-edge-litert")
    state |= {"kernels": f"kernels {native.kernel_isa()}", "load": load()}
    for subject in subjects:
        table = BenchTable(subject.name, subject.make(), dense_limit(), subject.memory_bytes, subject.layout)
        for use, threads in product(subject.uses, grid.threads):
            with torch_threads(threads):
                contest = Contest(table, use, grid, threads)
                for batch, ids, cache in grid.calls(use):
                    found.append(contest.measure(batch, ids, cache))
                    progress("measured", len(found), total)
    return BenchReport(
        file=None if file is None else str(file),
        seed=grid.seed,
        rounds=grid.rounds,
        machine=state,
        method=_METHOD,
        roofs=measure_roofs(),
        measurements=tuple(found),
    )


@contextmanager
def torch_threads(threads: int) -> Iterator[None]:
    """Set the number of torch's threads within the context."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def versions(*packages: str) -> dict[str, str]:
    """Return name and version of the installed packages, as texts."""
    found = {}
    for name in packages:
        with suppress(metadata.PackageNotFoundError):
            found[name] = f"{name} {metadata.version(name)}"
    return found


def load() -> str:
    """Return the load average of the last minute, as a text."""
    if not hasattr(os, "getloadavg"):
        return "load unknown"
    return f"load {os.getloadavg()[0]:.1f} at the start"
