"""Fair timing of several contenders in one process, with ratios and their confidence intervals.

Every round runs all contenders in random order on the same new inputs. The ratio is computed within the round, so that
disturbances of the machine affect both. The interval is the 95 % bootstrap interval of the median over rounds.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import onnxruntime as ort
from numpy.typing import NDArray

from edge_embed.report.results.interval import Interval
from edge_embed.steps import step

METHOD = (
    "CPU clock of the running thread; I/O binding with preallocated outputs (texts: plain calls); "
    "contenders in random order within each round, on the same new ids for every call and round; all "
    "rows were read once before, so tables are in memory, and in the caches as far as they fit; "
    "median ratio with 95 % bootstrap interval"
)
_RESAMPLES = 1000

Feeds = Mapping[str, NDArray[Any]]


class Contender(Protocol):
    """One side of a comparison; all preparation is done before the clock runs."""

    def set_inputs(self, feeds: Sequence[Feeds]) -> None:
        """Set new values, one set per call."""

    def run(self) -> None:
        """Run all calls in sequence."""

    @property
    def calls(self) -> int:
        """Return the number of calls of `run`."""


class BoundSession:
    """A session with bound inputs and outputs, so that a call has little cost besides the model."""

    def __init__(self, session: ort.InferenceSession, feeds: Feeds, calls: int = 1) -> None:
        """Bind ``calls`` sets of inputs of the shapes in ``feeds``."""
        self._run = session.run_with_iobinding
        names = [output.name for output in session.get_outputs()]
        with step("the first call before timed ones"):
            first = session.run(names, dict(feeds))
        self._results = [ort.OrtValue.ortvalue_from_numpy(result) for result in first]
        self._inputs: list[dict[str, Any]] = []
        self._bindings = []
        for _ in range(calls):
            inputs = {name: ort.OrtValue.ortvalue_from_numpy(value.copy()) for name, value in feeds.items()}
            binding = session.io_binding()
            for name, value in inputs.items():
                binding.bind_ortvalue_input(name, value)
            for name, result in zip(names, self._results, strict=True):
                binding.bind_ortvalue_output(name, result)
            self._inputs.append(inputs)
            self._bindings.append(binding)

    def set_inputs(self, feeds: Sequence[Feeds]) -> None:
        """Set new values, one set per call."""
        for inputs, values in zip(self._inputs, feeds, strict=True):
            for name, value in values.items():
                inputs[name].update_inplace(value)

    def run(self) -> None:
        """Run all calls in sequence."""
        for binding in self._bindings:
            self._run(binding)

    @property
    def calls(self) -> int:
        """Return the number of calls of `run`."""
        return len(self._bindings)

    def results(self) -> tuple[NDArray[Any], ...]:
        """Return the outputs of the last call."""
        return tuple(result.numpy() for result in self._results)


class CalledSession:
    """A session with plain calls, because binding supports neither texts nor results that are lists."""

    def __init__(self, session: ort.InferenceSession, feeds: Feeds, calls: int = 1) -> None:
        self._session, self._feeds = session, [dict(feeds)] * calls

    def set_inputs(self, feeds: Sequence[Feeds]) -> None:
        """Set new values, one set per call."""
        self._feeds = list(map(dict, feeds))

    def run(self) -> None:
        """Run all calls in sequence."""
        for feeds in self._feeds:
            self._session.run(None, feeds)

    @property
    def calls(self) -> int:
        """Return the number of calls of `run`."""
        return len(self._feeds)


def ready_session(session: ort.InferenceSession, feeds: Feeds, calls: int = 1) -> BoundSession | CalledSession:
    """Wrap a session of any model for timing, with bound inputs and outputs if their types allow it."""
    kinds = [port.type for port in (*session.get_inputs(), *session.get_outputs())]
    is_bound = all(kind.startswith("tensor(") and kind != "tensor(string)" for kind in kinds)
    return (BoundSession if is_bound else CalledSession)(session, feeds, calls)


@dataclass(frozen=True)
class Times:
    """Seconds per call of one contender, [rounds] each."""

    cpu: NDArray[np.float64]
    wall: NDArray[np.float64]


def time_rounds(
    contenders: Mapping[str, Contender],
    draw: Callable[[], Sequence[Feeds]],
    iterations: int,
    warmup: int,
    random: np.random.Generator,
    *,
    cpu_clock: Callable[[], int] = time.thread_time_ns,
    wall_clock: Callable[[], int] = time.perf_counter_ns,
    before: Callable[[], object] = lambda: None,
) -> dict[str, Times]:
    """Time all contenders on the same new inputs, round by round.

    Args:
        contenders: sides of the comparison, by name.
        draw: returns the inputs of one round, one set per call.
        iterations: number of measured rounds.
        warmup: rounds before the measured ones.
        random: source of the order within a round.
        cpu_clock: nanoseconds of the one thread that runs, or of the process if several run.
        wall_clock: nanoseconds of wall time.
        before: called before each contender runs, outside the measured time, with its inputs set.

    Returns:
        Seconds per call of every contender in every round, by name.
    """
    times = {name: Times(np.empty(iterations), np.empty(iterations)) for name in contenders}
    names = list(contenders)
    for number in range(-warmup, iterations):
        with step(f"timed calls: {', '.join(names)}"):  # one limit for a round, so that only calls are timed
            feeds = draw()
            for contender in contenders.values():
                contender.set_inputs(feeds)
            for index in random.permutation(len(names)):
                contender = contenders[names[index]]
                before()
                wall, cpu = wall_clock(), cpu_clock()
                contender.run()
                cpu, wall = cpu_clock() - cpu, wall_clock() - wall
                if number >= 0:
                    found = times[names[index]]
                    found.cpu[number], found.wall[number] = cpu / 1e9 / contender.calls, wall / 1e9 / contender.calls
    return times


def ratios_of(ours: NDArray[np.float64], peer: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the ratio ours / peer of every round."""
    return ours / np.maximum(peer, 1e-9)  # a clock that did not advance must not give an infinite ratio


def ratio_of(ours: NDArray[np.float64], peer: NDArray[np.float64], random: np.random.Generator) -> Interval:
    """Return the ratio ours / peer with its interval, from times of the same rounds."""
    return interval_of(ratios_of(ours, peer), random)


def interval_of(numbers: NDArray[np.float64], random: np.random.Generator) -> Interval:
    """Return the median of numbers, one for each round, with its interval."""
    return _interval_of_blocks(numbers[np.newaxis], random)


def ratio_of_blocks(ours: NDArray[np.float64], peer: NDArray[np.float64], random: np.random.Generator) -> Interval:
    """Return the ratio ours / peer with its interval, from times [blocks, rounds].

    Some conditions, such as the place of buffers, are constant within a block and drawn anew for each block.
    So whole blocks are resampled, then the rounds in them.
    """
    return _interval_of_blocks(ratios_of(ours, peer), random)


def _interval_of_blocks(numbers: NDArray[np.float64], random: np.random.Generator) -> Interval:
    blocks, rounds = numbers.shape
    chosen = random.integers(blocks, size=(_RESAMPLES, blocks, 1))
    resampled = numbers[chosen, random.integers(rounds, size=(_RESAMPLES, blocks, rounds))]
    low, high = np.percentile(np.median(resampled, axis=(1, 2)), [2.5, 97.5])
    return Interval(float(np.median(numbers)), float(low), float(high))
