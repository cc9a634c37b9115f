"""Steps of a command that run a model, each with a time limit: a model can run forever.

In the child process of a command (supervisor.py) a timer of the kernel ends the process, whatever native code does
there. The supervisor reports the step that was noted here. In any other process this module must not end the process;
it stops only a step that can be stopped.
"""

import math
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path

from edge_embed.errors import TimeLimitError

STEP = "EDGE_EMBED_STEP"  # names the file in which the child notes its step
REPORTED = "reported"  # replaces a step once the child itself has reported how it ends
_LONGEST = 1e8  # seconds, three years; the limit of timers
_limit = ContextVar("limit", default=math.inf)


@contextmanager
def limit_steps(seconds: float) -> Iterator[None]:
    """Limit each step within the context to ``seconds``."""
    token = _limit.set(seconds)
    try:
        yield
    finally:
        _limit.reset(token)


def step_limit() -> float:
    """Return the seconds that a step may take, infinity without a limit."""
    return _limit.get()


@contextmanager
def step(name: str, stop: Callable[[], None] | None = None) -> Iterator[None]:
    """Run one step, such as a model on given inputs.

    Args:
        name: description.
        stop: call by which another thread makes the step fail at once; None if there is none.

    Raises:
        TimeLimitError: it took too long, and was stopped.
    """
    seconds = step_limit()
    if seconds == math.inf:
        yield
    elif STEP in os.environ:
        with _ended_by_the_kernel(name, seconds):
            yield
    elif stop is not None:
        with _stopped(name, seconds, stop):
            yield
    else:
        yield


@contextmanager
def _ended_by_the_kernel(name: str, seconds: float) -> Iterator[None]:
    before = Path(os.environ[STEP]).read_text("utf-8")
    note_step(f"{name}\n{seconds:g}")
    left, _ = signal.setitimer(signal.ITIMER_REAL, min(seconds, _LONGEST))  # time left of an enclosing step
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, left)
        note_step(before)


@contextmanager
def _stopped(name: str, seconds: float, stop: Callable[[], None]) -> Iterator[None]:
    late = threading.Event()

    def end() -> None:
        late.set()
        stop()

    timer = threading.Timer(min(seconds, _LONGEST), end)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if late.is_set():
            raise TimeLimitError(too_long(name, f"{seconds:g}")) from error
        raise
    finally:
        timer.cancel()


def too_long(name: str, seconds: str) -> str:
    """Return the message about a step that was ended."""
    return (
        f"step {name!r} took more than {seconds} s, the time limit, and was ended; raise --time-limit, or in a "
        "budget time_limit under [targets]"
    )


def note_step(name: str) -> None:
    """Note the current step, for the message about how a child ended."""
    place = os.environ.get(STEP)
    if place is not None:
        with suppress(OSError):
            Path(place).write_text(name, "utf-8")


def seconds_of(call: Callable[[], object], what: str) -> float:
    """Return the wall time of a call, which is a step described by ``what``."""
    with step(what):
        start = time.perf_counter()
        call()
        return time.perf_counter() - start
