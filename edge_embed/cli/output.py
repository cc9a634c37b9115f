"""What every command puts out: progress on stderr, then a report as text or JSON on stdout."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, Protocol

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TimeElapsedColumn, TimeRemainingColumn

from edge_embed.steps import note_step

Command = Callable[..., None]
_FILE_WIDTH = 120  # of tables in logs and files, which have no width of their own


class Report(Protocol):
    """What every command ends with."""

    def to_json(self) -> dict[str, Any]:
        """Plain data with stable keys."""


class Rendered(Report, Protocol):
    """A report that knows how it looks on a console."""

    def render(self) -> Any:
        """What rich prints."""


@dataclass(frozen=True)
class Output:
    """How a command tells what it found.

    Attributes:
        as_json: only the result, as JSON.
        quiet: no progress, and no report unless as JSON.
    """

    as_json: bool
    quiet: bool

    def remarks(self, lines: Iterable[str]) -> None:
        """Tell on stderr what a report that is not shown would say."""
        for line in lines if self.quiet else ():
            click.echo(line, err=True)

    def finish(self, report: Rendered, exit_code: int = 0) -> None:
        """Print a report as it renders itself, and end."""
        self.finish_with(report, lambda console: console.print(report.render()), exit_code)

    def finish_with(self, report: Report, show: Callable[[Console], None], exit_code: int) -> None:
        """Print a report, and end."""
        if self.as_json:
            click.echo(json.dumps(report.to_json()))
        elif not self.quiet:
            show(Console(width=None if sys.stdout.isatty() else _FILE_WIDTH))
        sys.exit(exit_code)

    @contextmanager
    def progress(self) -> Iterator[Callable[[str, int, int], None]]:
        """Bars on stderr, one per table or step; nothing where stderr is no terminal."""
        console = Console(stderr=True)
        columns = (
            "{task.description}",
            BarColumn(),
            "{task.percentage:>3.0f}%",
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        hidden = self.quiet or not console.is_terminal
        with Progress(*columns, console=console, disable=hidden, transient=True) as bars:
            tasks: dict[str, TaskID] = {}

            def report(name: str, done: int, total: int) -> None:
                if name not in tasks:
                    note_step(name)
                    tasks[name] = bars.add_task(name, total=None)  # moves, while nobody knows how far it is
                bars.update(tasks[name], completed=done, total=total if done else None)

            yield report


def output_options(command: Command) -> Command:
    """``--json`` and ``--quiet``, which become the first argument."""

    @click.option("--json", "as_json", is_flag=True, help="Only the result, as JSON, on stdout.")
    @click.option("--quiet", "-q", is_flag=True, help="No progress, and no report unless --json.")
    @wraps(command)
    def with_output(*, as_json: bool, quiet: bool, **given: Any) -> None:
        command(Output(as_json, quiet), **given)

    return with_output
