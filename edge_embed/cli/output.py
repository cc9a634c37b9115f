"""The output of every command: progress on stderr, then a report as text or JSON on stdout."""

import json
import os
import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from edge_embed.files import check_output
from edge_embed.report.results.shown import Shown
from edge_embed.report.views.bars import bars
from edge_embed.report.views.text import AS_IT_IS, FILE_WIDTH
from edge_embed.report.views.words import plain

Command = Callable[..., None]


@dataclass(frozen=True)
class Output:
    """The form of a command's output.

    Attributes:
        as_json: print only the result, as JSON.
        quiet: print no progress, and no report except as JSON.
    """

    as_json: bool
    quiet: bool

    def remarks(self, lines: Iterable[str]) -> None:
        """Print on stderr the lines of a report that is not shown."""
        for line in lines if self.quiet else ():
            click.echo(plain(line), err=True)

    def finish(self, report: Shown, exit_code: int = 0, show: Callable[[Console], None] | None = None) -> None:
        """Print a report by its own method, or by ``show``, and exit."""
        if self.as_json:
            click.echo(json.dumps(report.to_json()))
        elif not self.quiet:
            columns = os.environ.get("COLUMNS", "")  # which rich reads
            has_width = sys.stdout.isatty() or (columns.isdigit() and int(columns) > 0)
            (show or report.show)(Console(width=None if has_width else FILE_WIDTH, **AS_IT_IS))
        sys.exit(exit_code)

    def progress(self) -> AbstractContextManager[Callable[[str, int, int], None]]:
        """Return progress on stderr: a bar per table or step, or lines where it is no terminal."""
        return bars(self.quiet, lines=True)


def check_places(places: Iterable[Path | None], *, force: bool) -> None:
    """Refuse invalid outputs before a model is loaded, which may take minutes."""
    for place in places:
        if place is not None:
            check_output([place], [], force)


def output_options(command: Command) -> Command:
    """Add ``--json`` and ``--quiet``, which become the first argument."""

    @click.option("--json", "as_json", is_flag=True, help="Print only the result, as JSON, on stdout.")
    @click.option("--quiet", "-q", is_flag=True, help="Print no progress, and no report except with --json.")
    @wraps(command)
    def with_output(*, as_json: bool, quiet: bool, **given: Any) -> None:
        command(Output(as_json, quiet), **given)

    return with_output
