"""Progress: bars on a terminal pulse until the first progress of a step is known; elsewhere lines have an estimate."""

import re
import time
from io import StringIO

import pytest
from rich.console import Console
from rich.progress import Progress

from edge_embed.cli import output
from edge_embed.report.views import bars as bars_module


@pytest.fixture
def bars(monkeypatch: pytest.MonkeyPatch) -> list[Progress]:
    """Return the list of progress bars that a command creates on a simulated terminal."""
    made: list[Progress] = []

    class Kept(Progress):
        def __init__(self, *columns: object, **options: object) -> None:
            super().__init__(*columns, **options)
            made.append(self)

    monkeypatch.setattr(bars_module, "Progress", Kept)
    monkeypatch.setattr(bars_module, "Console", lambda stderr: Console(file=StringIO(), force_terminal=True))
    return made


def test_bar_pulses_until_first_progress(bars: list[Progress]) -> None:
    with output.Output(as_json=False, quiet=False).progress() as report:
        report("words: dpq", 0, 10)
        (task,) = bars[0].tasks
        assert (task.total, task.completed, task.finished) == (None, 0, False)  # rich animates a bar without a total
        report("words: dpq", 5, 10)
        assert (task.total, task.percentage) == (10, 50)
        report("words: dpq", 10, 10)
        assert task.finished


def test_step_without_parts_disappears_when_next_one_begins(bars: list[Progress]) -> None:
    with output.Output(as_json=False, quiet=False).progress() as report:
        report("reading", 0, 1)
        report("words: dpq", 5, 10)
        assert [task.visible for task in bars[0].tasks] == [False, True]


@pytest.mark.parametrize("quiet", [False, True])
def test_long_step_without_terminal_prints_line_with_estimate(quiet: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    stderr = StringIO()
    monkeypatch.setattr(bars_module, "Console", lambda **_: Console(file=stderr))
    monkeypatch.setattr(bars_module, "_FIRST", 0.2)
    with output.Output(as_json=True, quiet=quiet).progress() as report:
        report("reading", 0, 1)
        report("words: dpq", 1, 4)
        time.sleep(0.05)
        report("words: dpq", 2, 4)
        assert stderr.getvalue() == ""  # nothing about short steps
        time.sleep(0.4)
    assert bool(re.fullmatch(r"words: dpq: 50 % after 0 s, \d s left\n", stderr.getvalue())) != quiet
