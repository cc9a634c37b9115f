"""Supervisor: runs a command in a child process, because a model can crash or block the process that opens it.

Native code of runtimes crashes on some files. The command then ends with a message and an exit code like any other
error, instead of a signal, and its temporary folders are removed. The same holds after a step that took too long, and
after an interrupt or a termination signal while native code runs. The child ends when the parent ends, in any way.
"""

import ctypes
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from edge_embed.errors import OutputError
from edge_embed.files import FOLDERS, remove_noted
from edge_embed.steps import REPORTED, STEP, too_long

_ALIVE = "EDGE_EMBED_SUPERVISOR"
_PROGRAM = "from edge_embed.cli import run; run()"
_PR_SET_PDEATHSIG = 1
INTERRUPTED = 128 + signal.SIGINT
_PATIENCE = 3.0  # seconds that a child has to end by itself
_TO_END = ("SIGTERM", "SIGHUP", "SIGQUIT")


def leave_on_signals() -> None:
    """Turn signals into an exception, so that partial results are removed; ignored signals (nohup) stay ignored."""

    def leave(number: int, _: object) -> None:
        take_no_notice(*_TO_END)  # one is enough: partial results are removed now
        sys.exit(128 + number)

    for name in _TO_END:
        number = getattr(signal, name, None)  # not all systems have all
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, leave)


def take_no_notice(*names: str) -> None:
    """Discard signals from now on; SIG_IGN would raise an error for a signal that is already pending."""
    for name in names:
        if hasattr(signal, name):  # not all systems have all
            signal.signal(getattr(signal, name), lambda *_: None)


def can_supervise() -> bool:
    """Return whether this system supports it; Windows passes no pipes to children."""
    return sys.platform != "win32"


def run_supervised(arguments: Sequence[str], on_end: Callable[..., int]) -> int:
    """Run the command line in a child process.

    Args:
        arguments: arguments of the command line.
        on_end: called if the child did not end by itself, with the reason as a text and its ``exit_code``; returns the
            exit code of the command.

    Returns:
        The exit code.

    Raises:
        OutputError: no temporary folder can be made.
    """
    listening, speaking = os.pipe()  # the child sees the end of this pipe when this process ends
    leave_on_signals()
    with _temporary_folder() as name:
        folder = Path(name)
        step, folders = folder / "step", folder / "folders"
        step.touch()
        variables = {_ALIVE: str(listening), STEP: str(step), FOLDERS: str(folders), "TMPDIR": name}
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, *arguments],
            env={**os.environ, **variables},
            pass_fds=[listening],
        )
        os.close(listening)
        try:
            interrupted = _wait(child)
        except SystemExit as end:  # from `leave_on_signals`: the child reports the signal, so it gets the same one
            if isinstance(end.code, int):
                child.send_signal(end.code - 128)
            raise
        finally:
            _end(child)
            os.close(speaking)
            remove_noted(folders)
        if child.returncode >= 0:
            return child.returncode
        if interrupted and step.read_text("utf-8") == REPORTED:
            return INTERRUPTED
        reason, exit_code = _reason(child.returncode, interrupted, step)
        return on_end(reason, exit_code=exit_code)


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="edge-embed-", ignore_cleanup_errors=True)
    except OSError as error:
        reason = error.strerror or error
        raise OutputError(
            f"a temporary folder cannot be created ({reason}): set TMPDIR to a writable folder"
        ) from error


def _wait(child: "subprocess.Popen[bytes]") -> bool:
    """Wait for the end, and return whether an interrupt caused it; native code may ignore an interrupt."""
    try:
        child.wait()
        return False
    except KeyboardInterrupt:
        take_no_notice("SIGINT")  # one is enough: the rest takes seconds
    for again in (False, True):  # a terminal interrupts the child too
        if again:
            child.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            child.wait(_PATIENCE)
            return True
    child.kill()
    child.wait()
    return True


def _reason(code: int, interrupted: bool, step: Path) -> tuple[str, int]:
    """Return why a child was ended by a signal, as a text, and the exit code for that."""
    name, _, limit = step.read_text("utf-8").partition("\n")
    if code == -signal.SIGALRM and not interrupted:
        return too_long(name, limit), 1
    where = f" in step {name!r}" if name else ""
    if interrupted or code == -signal.SIGINT:
        return f"interrupted{where}: nothing was written", INTERRUPTED
    if code == -signal.SIGBUS:  # a mapped file has lost bytes
        return f"a file became shorter{where} while it was read; do not change files until the command ends", 2
    if code in (-signal.SIGKILL, -signal.SIGXCPU):  # no runtime does that
        return (
            f"ended by signal {signal.Signals(-code).name}{where}: memory or processor time ran out (ulimit -a shows "
            "limits), or another program ended it; nothing was written"
        ), 1
    return (
        f"ended by signal {signal.Signals(-code).name}{where}: a runtime crashed on this file or on its "
        "inputs; nothing was written. With a lower graph_optimization_level the file may run"
    ), 1


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End a child that still runs; SIGTERM comes first, so that it can remove partial results."""
    child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.wait(_PATIENCE)
    child.kill()
    child.wait()


def is_supervised() -> bool:
    """Return whether this process is a supervised child, which then ends with its parent."""
    alive = os.environ.pop(_ALIVE, None)
    if alive is None:
        return False
    leave_on_signals()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)  # it ends a step that takes too long
    if sys.platform == "linux":  # at once, also in native code that holds the interpreter's lock
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_end_with, args=(int(alive),), daemon=True).start()
    return True


def _end_with(pipe: int) -> None:
    os.read(pipe, 1)
    os._exit(1)
