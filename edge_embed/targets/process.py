"""Programs of others: run with a time limit, ended with everything that they started."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from edge_embed.targets.target import NotRunError, RunFailedError

_LONGEST = 300
_PAUSE, _PATIENCE = 0.05, 5.0  # seconds


def run_program(
    command: Sequence[str | Path],
    time_limit: float,
    *,
    what: str,
    environment: Mapping[str, str] | None = None,
    until: Callable[[], bool] = lambda: False,
) -> str:
    """Run a program to its end and return what it printed.

    Args:
        command: the program and its arguments.
        time_limit: in seconds; then it is ended, and what it has started too.
        what: in words, for messages: ``the runner``.
        environment: variables beside those of this process.
        until: for a program that does not end by itself: asked again and again; once true, it is ended.

    Raises:
        NotRunError: if it is not there.
        RunFailedError: if it fails, is ended by a signal, or takes too long.
    """
    with _started(command, what, environment) as process:
        end = time.monotonic() + time_limit
        while True:
            with suppress(subprocess.TimeoutExpired):
                printed, complaints = process.communicate(timeout=_PAUSE)
                break
            if until():
                return ""
            if time.monotonic() > end:
                raise RunFailedError(f"{what} took more than {time_limit:g} s, the time limit, and was ended")
    if process.returncode:
        raise RunFailedError(f"{what} {_ending(process.returncode)}: {_last_line(complaints) or _last_line(printed)}")
    return printed


@contextmanager
def _started(
    command: Sequence[str | Path], what: str, environment: Mapping[str, str] | None
) -> Iterator["subprocess.Popen[str]"]:
    """A process that leads a session; when the context ends, it and all that it has started are ended.

    Its input is a pipe that ends with this process: a program can watch it, to end when this one is killed.
    """
    listening, speaking = os.pipe()
    try:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=listening,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # so that all of it can be ended
        )
    except OSError as error:
        os.close(speaking)
        raise NotRunError(f"{what} cannot be started: {command[0]}: {error.strerror or error}") from error
    finally:
        os.close(listening)
    try:
        yield process
    finally:
        end_group(process)
        os.close(speaking)


def end_group(process: "subprocess.Popen[str]") -> None:
    """End a process that leads a session, and all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=_PATIENCE)  # until the last of them has closed what they print to
    process.wait()


def _ending(status: int) -> str:
    if status > 0:
        return f"ended with status {status}"
    return f"was ended by signal {signal.Signals(-status).name}"


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][:_LONGEST]
