"""Cooperating processes, forked from a server that has imported their packages: imports took most of their time.

The server runs no test, so it has no threads, models or state of tests.
"""

import time
from collections.abc import Callable
from typing import Any

from torch import multiprocessing

_IMPORTED = "faiss", "torch.distributed", "torch.nn.parallel", "hypothesis", "onnx", "edge_embed", "edge_embed.workflow"
_MOST_SECONDS = 300


def run_processes(work: Callable[..., None], given: tuple[Any, ...], count: int = 2) -> None:
    """Call ``work(rank, *given)`` in each process, and raise the error of a process that failed."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(_IMPORTED))
    running = multiprocessing.start_processes(work, given, count, join=False, start_method="forkserver")
    end = time.monotonic() + _MOST_SECONDS
    while not running.join(end - time.monotonic()):
        assert time.monotonic() < end, "the processes wait for each other"
