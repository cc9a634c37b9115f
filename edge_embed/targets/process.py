"""Programs of others: run with a time limit, ended with everything that they started."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from edge_embed.targets.target import NotRunError, RunFailedError

_LONGEST = 300


def run_program(
    command: Sequence[str | Path], time_limit: float, *, what: str, environment: Mapping[str, str] | None = None
) -> str:
    """Run a program to its end and return what it printed.

    Args:
        command: the program and its arguments.
        time_limit: in seconds; then it is ended, and what it has started too.
        what: in words, for messages: ``the runner``.
        environment: variables beside those of this process.

    Raises:
        NotRunError: if it is not there.
        RunFailedError: if it fails, is ended by a signal, or takes too long.
    """
    try:
        process = subprocess.Popen(
            [str(part) for part in command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # so that all of it can be ended
        )
    except OSError as error:
        raise NotRunError(f"{what} cannot be started: {command[0]}: {error.strerror or error}") from error
    try:
        printed, complaints = process.communicate(timeout=time_limit)
    except subprocess.TimeoutExpired as error:
        raise RunFailedError(f"{what} took more than {time_limit:g} s, the time limit, and was ended") from error
    finally:
        end_group(process)
    if process.returncode:
        raise RunFailedError(f"{what} {_ending(process.returncode)}: {_last_line(complaints) or _last_line(printed)}")
    return printed


def end_group(process: "subprocess.Popen[str]") -> None:
    """End a process that leads a session, and all that it has started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _ending(status: int) -> str:
    if status > 0:
        return f"ended with status {status}"
    return f"was ended by signal {signal.Signals(-status).name}"


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][:_LONGEST]
