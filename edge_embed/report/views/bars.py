"""Progress on stderr: a bar for each table or step on a terminal, and lines with an estimate elsewhere."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from edge_embed.report.views.words import plain
from edge_embed.steps import note_step

_SPEED_SECONDS = 600  # over which the speed for the estimate is measured: a part may take a minute
_FIRST, _LONGEST = 10.0, 60.0  # seconds to the first line, and between two lines at most


@contextmanager
def bars(quiet: bool = False, lines: bool = False) -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function of (step, done, total) that shows bars if stderr is a terminal or a notebook.

    With ``lines``, any other stderr gets a line now and then, the first after some seconds.
    """
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),  # the name may come from a file
        BarColumn(),
        "{task.percentage:>3.0f}%",
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    has_bars = console.is_terminal or console.is_jupyter
    shown = Progress(
        *columns,
        console=console,
        disable=quiet or not has_bars,
        transient=True,
        speed_estimate_period=_SPEED_SECONDS,
    )
    with shown, _lines(shown) if lines and not quiet and not has_bars else nullcontext():
        tasks: dict[str, TaskID] = {}

        def report(name: str, done: int, total: int) -> None:
            if name not in tasks:
                note_step(name)
                for task in shown.tasks:
                    shown.update(task.id, visible=task.total is not None)  # a step without parts has ended
                tasks[name] = shown.add_task(plain(name), total=None)  # moves until the total is known
            shown.update(tasks[name], completed=done, total=total if done else None)

        yield report


@contextmanager
def _lines(shown: Progress) -> Iterator[None]:
    """Print the state of the newest step within the context, less often the longer it takes."""
    ended = threading.Event()

    def print_lines() -> None:
        wait = _FIRST
        while not ended.wait(wait):
            if shown.tasks:
                shown.console.print(_line(shown), markup=False, highlight=False, soft_wrap=True)
            wait = min(2 * wait, _LONGEST)

    thread = threading.Thread(target=print_lines, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _line(shown: Progress) -> str:
    task = shown.tasks[-1]
    left = "" if task.time_remaining is None else f", {_spelled(task.time_remaining)} left"
    part = "" if task.total is None else f" {task.percentage:.0f} %"
    return f"{task.description}:{part} after {_spelled(task.elapsed or 0)}{left}"


def _spelled(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
