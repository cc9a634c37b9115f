"""External programs: they run with a time limit and are ended together with all processes that they started."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import PurePath
from typing import IO

from edge_embed.targets.target import NotRunError, RunFailedError

_LONGEST = 300
_PAUSE, _PATIENCE = 0.05, 5.0  # seconds


@dataclass(frozen=True)
class Finished:
    """Program that has ended.

    Attributes:
        status: exit status, or the negative number of the signal that ended it; None if it ran out of time.
        printed: its standard output, unless that was redirected.
        complaints: its standard error.
        time_limit: its time limit in seconds.
    """

    status: int | None
    printed: str
    complaints: str
    time_limit: float

    @property
    def ending(self) -> str:
        """Return a description of the end, with the last line of output."""
        if self.status is None:
            return f"took more than {self.time_limit:g} s, the time limit, and was ended"
        status = (
            f"was ended by signal {_signal(-self.status)}" if self.status < 0 else f"ended with status {self.status}"
        )
        return f"{status}: {last_line(self.complaints) or last_line(self.printed)}"


def run_program(
    command: Sequence[str | PurePath],
    time_limit: float,
    *,
    what: str,
    environment: Mapping[str, str] | None = None,
    until: Callable[[], bool] = lambda: False,
) -> str:
    """Run the program that runs the model to its end and return its output.

    Args:
        command: the program and its arguments.
        time_limit: seconds after which it and all processes that it started are ended.
        what: name for messages: ``the runner``.
        environment: additional environment variables.
        until: for a program that does not end by itself: called repeatedly; once true, the program is ended.

    Raises:
        NotRunError: if the program is missing or takes too long.
        RunFailedError: if it fails, or is ended by a signal.
    """
    done = finish_program(command, time_limit, what=what, environment=environment, until=until)
    check_run(done, what)
    return done.printed


def check_run(done: Finished, what: str) -> None:
    """Raise an error if the program that runs the model did not succeed.

    Raises:
        NotRunError: if it took too long, which proves nothing about the file.
        RunFailedError: if it failed, or was ended by a signal.
    """
    if done.status is None:
        raise NotRunError(f"{what} {done.ending}")
    if done.status != 0:
        raise RunFailedError(f"{what} {done.ending}")


def run_tool(
    command: Sequence[str | PurePath],
    time_limit: float,
    *,
    what: str,
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes] | None = None,
) -> Finished:
    """Run a program that a target needs before or after the model runs, such as a compiler.

    Args:
        command: the program and its arguments.
        time_limit: seconds after which it and all processes that it started are ended.
        what: name for messages: ``the compiler``.
        stdin: input of the program, none by default.
        stdout: output of the program, by default `Finished.printed`.

    Raises:
        NotRunError: if the program is missing, fails, is ended by a signal, or takes too long.
    """
    done = finish_program(command, time_limit, what=what, stdin=stdin, stdout=stdout)
    if done.status != 0:
        raise NotRunError(f"{what} {done.ending}")
    return done


def finish_program(
    command: Sequence[str | PurePath],
    time_limit: float,
    *,
    what: str,
    environment: Mapping[str, str] | None = None,
    until: Callable[[], bool] = lambda: False,
    stdin: IO[bytes] | None = None,
    stdout: IO[bytes] | None = None,
) -> Finished:
    """Run a program until it ends in any way; arguments as of `run_program` and `run_tool`.

    Raises:
        NotRunError: if the program is missing.
    """
    with _started(command, what, environment, stdin, stdout) as process:
        end = time.monotonic() + time_limit
        while True:
            with suppress(subprocess.TimeoutExpired):
                printed, complaints = process.communicate(timeout=_PAUSE)
                return Finished(process.returncode, printed or "", complaints, time_limit)
            if until():
                return Finished(0, "", "", time_limit)
            if time.monotonic() > end:
                return Finished(None, "", "", time_limit)


@contextmanager
def _started(
    command: Sequence[str | PurePath],
    what: str,
    environment: Mapping[str, str] | None,
    stdin: IO[bytes] | None,
    stdout: IO[bytes] | None,
) -> Iterator["subprocess.Popen[str]"]:
    """Start a process that leads a session; at the end of the context it and all that it started are ended.

    Without a given input, its input is a pipe that ends with this process. A program that watches the pipe can end when
    this process is killed.
    """
    listening, speaking = os.pipe()
    try:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=listening if stdin is None else stdin,
            stdout=subprocess.PIPE if stdout is None else stdout,
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
    """End a process that leads a session, and all processes that it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=_PATIENCE)  # until all of them have closed their output
    process.wait()


def last_line(text: str) -> str:
    """Return the last line of a program's output, cut if it is long."""
    return text.strip().rpartition("\n")[2][:_LONGEST]


def _signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
