"""Errors of all commands: a line on stderr, an exit code, and with ``--json`` an object on stdout."""

import errno
import json
import os
import sys
from contextlib import suppress
from typing import Any

import click

from edge_embed.errors import BadInputError, EdgeEmbedError

_AS_JSON = "edge_embed.json"


class Commands(click.Group):
    """Turns our errors into one line and an exit code; with ``--json`` the line is an object on stdout."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse, and remember whether the result is to be JSON."""
        as_json = "--json" in args  # parsing consumes them
        context = super().make_context(info_name, args, parent, **extra)
        context.meta[_AS_JSON] = as_json
        return context

    def invoke(self, context: click.Context) -> Any:
        """Run a command."""
        try:
            return super().invoke(context)
        except EdgeEmbedError as error:
            context.exit(tell_error(str(error), as_json=context.meta[_AS_JSON], exit_code=error.exit_code))
        except OSError as error:  # of the path of an input, or of stdout; click itself treats a closed pipe
            if error.errno == errno.EPIPE:
                raise
            click.echo(f"Error: {error.filename or 'output'}: {error.strerror or error}", err=True)
            if error.filename is None:
                _discard_output()
            context.exit(BadInputError.exit_code if error.errno == errno.ENAMETOOLONG else 1)


def tell_error(message: str, *, as_json: bool, exit_code: int) -> int:
    """Print why a command failed, and return its exit code."""
    if as_json:
        click.echo(json.dumps({"error": message, "exit_code": exit_code}))
    click.echo(f"Error: {message}", err=True)
    return exit_code


def _discard_output() -> None:
    """Nothing is written to stdout any more: what is left in its buffer would fail again when Python ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
