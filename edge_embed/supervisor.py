"""Runs a command in a process of its own, because a model can end the process that opens it.

Native code of runtimes crashes on some files. The command then ends with a message and an exit code like any other
error, instead of a signal, and what it had put into the temporary folder is removed. The child ends when the parent
does, however that ends.
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

_ALIVE, _STEP = "EDGE_EMBED_SUPERVISOR", "EDGE_EMBED_STEP"
_PROGRAM = "from edge_embed.cli import run; run()"
_PR_SET_PDEATHSIG = 1
_PATIENCE = 3.0  # seconds that a child has to end by itself
_TERMINATED = 128 + signal.SIGTERM


def _leave(*_: object) -> None:
    """On a signal to end: by an exception, so that what was begun is removed."""
    sys.exit(_TERMINATED)


def can_supervise() -> bool:
    """Whether this system can; Windows hands no pipes on."""
    return sys.platform != "win32"


def run_supervised(arguments: Sequence[str], on_crash: Callable[[str], int]) -> int:
    """Run the command line in a child process.

    Args:
        arguments: of the command line.
        on_crash: told in words how the child was ended, if a signal ended it; gives the exit code.

    Returns:
        The exit code.
    """
    listening, speaking = os.pipe()  # the child sees the end of this pipe when this process ends
    signal.signal(signal.SIGTERM, _leave)
    with tempfile.TemporaryDirectory(prefix="edge-embed-", ignore_cleanup_errors=True) as folder:
        step = Path(folder) / "step"
        variables = {_ALIVE: str(listening), _STEP: str(step), "TMPDIR": folder}
        child = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, *arguments],
            env={**os.environ, **variables},
            pass_fds=[listening],
        )
        os.close(listening)
        try:
            code = _wait(child)
        finally:
            _end(child)
            os.close(speaking)
        if code >= 0:
            return code
        where = step.read_text("utf-8") if step.exists() else ""
        return on_crash(f"ended by signal {signal.Signals(-code).name}" + (f" in step {where!r}" if where else ""))


def _wait(child: "subprocess.Popen[bytes]") -> int:
    with suppress(KeyboardInterrupt):
        return child.wait()
    with suppress(subprocess.TimeoutExpired):  # a terminal interrupts the child too
        return child.wait(_PATIENCE)
    child.send_signal(signal.SIGINT)
    return child.wait()


def _end(child: "subprocess.Popen[bytes]") -> None:
    """End a child that still runs: first so that it removes what it has begun to write."""
    child.terminate()
    with suppress(subprocess.TimeoutExpired):
        child.wait(_PATIENCE)
    child.kill()
    child.wait()


def is_supervised() -> bool:
    """Whether this process is such a child. It then ends with its parent."""
    alive = os.environ.pop(_ALIVE, None)
    if alive is None:
        return False
    signal.signal(signal.SIGTERM, _leave)
    if sys.platform == "linux":  # at once, also in native code that holds the interpreter's lock
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    threading.Thread(target=_end_with, args=(int(alive),), daemon=True).start()
    return True


def _end_with(pipe: int) -> None:
    os.read(pipe, 1)
    os._exit(1)


def note_step(name: str) -> None:
    """Remember what is being done, for the message about a crash."""
    place = os.environ.get(_STEP)
    if place is not None:
        with suppress(OSError):
            Path(place).write_text(name, "utf-8")
