"""Figures of contenders from their times."""

import math
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from edge_embed.report.results.bench import Figure
from edge_embed.validation.timing import Times, ratio_of


def cpu_clock(threads: int) -> Callable[[], int]:
    """Return the clock of the CPU time of one thread that runs, or of the process if several run."""
    return time.thread_time_ns if threads == 1 else time.process_time_ns


def median(seconds: NDArray[np.float64]) -> float:
    """Return the median of times, above 0."""
    return max(float(np.median(seconds)), 1e-9)  # a clock may stand still


def figure_of(
    name: str,
    what: str,
    own: Times,
    ours: Times,
    batch: int,
    random: np.random.Generator,
    *,
    error: float = math.nan,
    empty: float | None = None,
) -> Figure:
    """Return the figure of a contender.

    Args:
        name: name of the contender.
        what: the call that is timed.
        own: its times.
        ours: our times in the same rounds; the same object for ours, which has no ratio.
        batch: items of a call.
        random: source of the resampling.
        error: error of its results; not finite without one.
        empty: seconds of an empty call through the same interface.
    """
    cpu, is_peer = median(own.cpu), own is not ours
    return Figure(
        name=name,
        what=what,
        cpu_microseconds=1e6 * cpu,
        wall_microseconds=1e6 * median(own.wall),
        nanoseconds_per_item=1e9 * cpu / batch,
        empty_call_microseconds=None if empty is None else 1e6 * empty,
        empty_call_share=None if empty is None else empty / cpu,
        cpu_ratio=ratio_of(own.cpu, ours.cpu, random) if is_peer else None,
        wall_ratio=ratio_of(own.wall, ours.wall, random) if is_peer else None,
        error=error if math.isfinite(error) else None,
    )
