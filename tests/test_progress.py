"""Progress bars on a terminal: they pulse until the first progress of a step is known, and then show it."""

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
