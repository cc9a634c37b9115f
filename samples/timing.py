"""Timing of several implementations in turns in one process."""

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import numpy as np

Input = TypeVar("Input")
_ROUNDS = 400


def median_microseconds(ways: Mapping[str, Callable[[Input], object]], inputs: Sequence[Input]) -> dict[str, float]:
    """Return medians by name: every input goes through all implementations, in random order, before the next."""
    random, times = np.random.default_rng(0), {name: list[float]() for name in ways}
    names = list(ways)
    for number in range(_ROUNDS):
        for at in random.permutation(len(names)):
            begin = time.perf_counter()
            ways[names[at]](inputs[number % len(inputs)])
            times[names[at]].append(1e6 * (time.perf_counter() - begin))
    return {name: float(np.median(found)) for name, found in times.items()}
