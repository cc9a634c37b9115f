"""Progress bars on stderr, one for each table or step."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from edge_embed.report.views.words import plain
from edge_embed.steps import note_step


@contextmanager
def bars(quiet: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function of (step, done, total) that shows bars if stderr is a terminal or a notebook."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),  # the name may come from a file
        BarColumn(),
        "{task.percentage:>3.0f}%",
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    hidden = quiet or not (console.is_terminal or console.is_jupyter)
    with Progress(*columns, console=console, disable=hidden, transient=True) as shown:
        tasks: dict[str, TaskID] = {}

        def report(name: str, done: int, total: int) -> None:
            if name not in tasks:
                note_step(name)
                tasks[name] = shown.add_task(plain(name), total=None)  # moves until the total is known
            shown.update(tasks[name], completed=done, total=total if done else None)

        yield report
