"""Upper limits of the machine on one thread: read bandwidth of each memory level, operations in registers."""

import time

import numpy as np

from edge_embed.bench import native
from edge_embed.bench.caches import cache_sizes
from edge_embed.report.results.bench import Roofs

_REPEATS = 5
_READ_BYTES = 1 << 28  # bytes of a measurement: milliseconds
_ROUNDS = 1_000_000
_MEMORY_BYTES = 256 << 20


def measure_roofs() -> Roofs:
    """Measure reads of half of each cache, of a buffer that fits no cache, and multiply-adds in registers."""
    sizes = cache_sizes()
    read = {f"L{level}": _read(size // 2) for level, size in sizes.items()}
    read["memory"] = _read(max(_MEMORY_BYTES, 4 * max(sizes.values(), default=0)))
    return Roofs(read, _multiply_add())


def _read(size: int) -> float:
    """Return the read bandwidth in GB/s."""
    memory = native.Memory(size)
    times = max(1, _READ_BYTES // memory.nbytes)
    memory.read(1)
    seconds = []
    for _ in range(_REPEATS):
        start = time.thread_time_ns()
        memory.read(times)
        seconds.append((time.thread_time_ns() - start) / 1e9)
    return memory.nbytes * times / float(np.median(seconds)) / 1e9


def _multiply_add() -> float:
    """Return the rate of multiply-adds in GFLOP/s."""
    rates = []
    for _ in range(_REPEATS):
        start = time.thread_time_ns()
        operations = native.library().eb_multiply_add(_ROUNDS)
        rates.append(operations / (time.thread_time_ns() - start))
    return float(np.median(rates))
