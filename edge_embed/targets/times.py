"""Times of calls in this process."""

import time
from collections.abc import Callable

from edge_embed.steps import step


def seconds_of(call: Callable[[], object], what: str) -> float:
    """Wall time of a call, which is a step of its own: ``what`` in words."""
    with step(what):
        start = time.perf_counter()
        call()
        return time.perf_counter() - start
