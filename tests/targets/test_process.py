"""Programs that a target runs always end, with all processes that they have started."""

import os
import sys
import time
from pathlib import Path

import pytest

from edge_embed.targets.process import run_program
from edge_embed.targets.target import NotRunError, RunFailedError

PYTHON = [sys.executable, "-c"]


def test_output_of_program_is_returned():
    assert run_program([*PYTHON, "print('é', end='')"], 30, what="it", environment={"PYTHONUTF8": "1"}) == "é"


def test_error_has_status_and_last_line_of_program():
    with pytest.raises(RunFailedError, match=r"^the tool ended with status 7: the reason$"):
        run_program(
            [*PYTHON, "import sys; print('x'); sys.stderr.write('a\\nthe reason\\n'); sys.exit(7)"], 30, what="the tool"
        )


def test_error_names_signal_of_program():
    with pytest.raises(RunFailedError, match="was ended by signal SIGSEGV"):
        run_program([*PYTHON, "import os; os.kill(os.getpid(), 11)"], 30, what="the tool")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_missing_program_is_not_run_and_leaves_nothing_open():
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(NotRunError, match="the tool cannot be started: no-such-program-at-all: No such file"):
        run_program(["no-such-program-at-all"], 30, what="the tool")
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_time_limit_ends_children_too(tmp_path):
    child = tmp_path / "child"
    start = time.monotonic()
    with pytest.raises(NotRunError, match=r"took more than 3 s, the time limit, and was ended"):
        run_program([*PYTHON, _parent(child, "time.sleep(600)")], 3, what="the tool")
    assert time.monotonic() - start < 30
    assert _gone(child.read_text())


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_program_is_ended_once_condition_holds(tmp_path):
    there = tmp_path / "there"
    script = f"import pathlib, time; pathlib.Path({str(there)!r}).touch(); time.sleep(600)"
    start = time.monotonic()
    run_program([*PYTHON, script], 60, what="the tool", until=there.exists)
    assert time.monotonic() - start < 30


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_child_left_behind_is_ended(tmp_path):
    child = tmp_path / "child"
    run_program([*PYTHON, _parent(child, "", "stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL")], 30, what="it")
    assert _gone(child.read_text())


def _parent(note: Path, end: str, options: str = "") -> str:
    """Return a program that starts another one, writes its process id, and then runs the given code."""
    return (
        "import subprocess, sys, pathlib, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'], {options})\n"
        f"pathlib.Path({str(note)!r}).write_text(str(child.pid))\n"
        f"{end}\n"
    )


def _gone(pid: str) -> bool:
    """Return whether a process has ended, or has ended and is not yet reaped."""
    for _ in range(100):
        status = Path(f"/proc/{pid}/status")
        if not status.exists() or "State:\tZ" in status.read_text():
            return True
        time.sleep(0.05)
    return False
