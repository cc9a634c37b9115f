"""Processes that work together, forked from one that has imported what all of them need: most of their time was that.

It is forked before any test, so to say: it has no threads, models or state of tests, and never runs any of them.
"""

import time
from collections.abc import Callable
from typing import Any

from torch import multiprocessing

_IMPORTED = "faiss", "torch.distributed", "torch.nn.parallel", "hypothesis", "onnx", "edge_embed", "edge_embed.workflow"
_MOST_SECONDS = 300


def run_processes(work: Callable[..., None], given: tuple[Any, ...], count: int = 2) -> None:
    """Call ``work(rank, *given)`` in each, and raise what one of them raised."""
    multiprocessing.get_context("forkserver").set_forkserver_preload(list(_IMPORTED))
    running = multiprocessing.start_processes(work, given, count, join=False, start_method="forkserver")
    end = time.monotonic() + _MOST_SECONDS
    while not running.join(end - time.monotonic()):
        assert time.monotonic() < end, "the processes wait for each other"
