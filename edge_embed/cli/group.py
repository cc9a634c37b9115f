"""Errors of all commands: a line on stderr, an exit code, and with ``--json`` an object on stdout."""

import errno
import json
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from difflib import get_close_matches
from typing import Any

import click

from edge_embed.cli.spelling import spelled
from edge_embed.errors import BadInputError, EdgeEmbedError, one_line
from edge_embed.extras import named_extras
from edge_embed.steps import REPORTED, note_step
from edge_embed.supervisor import INTERRUPTED, take_no_notice

_AS_JSON = "edge_embed.json"
_NO_MEMORY = ("can't allocate memory", "failed to map segment", "annot allocate memory")  # of torch, and of the loader
_ALIKE = 0.7  # share of equal letters from which an option is suggested
LOST = "edge_embed.lost"  # the result of an interrupt in words, set by the command


class Commands(click.Group):
    """Converts our errors to one line and an exit code; with ``--json`` the line is an object on stdout."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Parse, and store whether the result must be JSON."""
        as_json = "--json" in args  # parsing consumes them
        context = super().make_context(info_name, args, parent, **extra)
        context.meta[_AS_JSON] = as_json
        return context

    def invoke(self, context: click.Context) -> Any:
        """Run a command, and report its errors."""
        try:
            with named_extras():
                return super().invoke(context)
        except EdgeEmbedError as error:
            message = spelled(str(error), self.commands[context.invoked_subcommand or ""])
            context.exit(tell_error(message, as_json=context.meta[_AS_JSON], exit_code=error.exit_code))
        except click.ClickException as error:
            if isinstance(error, click.NoSuchOption):
                vars(error)["possibilities"] = _near(error.option_name, error.possibilities or [])
            vars(error)["message"] = _on_a_line(error.message)  # which type checkers treat as final
            raise
        except OSError as error:
            context.exit(tell_os_error(error))
        except (MemoryError, RuntimeError, ImportError) as error:
            if not _is_out_of_memory(error):
                raise
            message = f"out of memory ({one_line(error)}): give the process more memory, or choose a smaller input"
            context.exit(tell_error(message, as_json=context.meta[_AS_JSON], exit_code=1))
        except KeyboardInterrupt:
            context.exit(_tell_interrupt(context, "interrupted", INTERRUPTED))
        except SystemExit as end:
            if not isinstance(end.code, int) or end.code <= 128:
                raise
            context.exit(_tell_interrupt(context, f"ended by {signal.Signals(end.code - 128).name}", end.code))


def _near(given: str, options: Sequence[str]) -> list[str]:
    """Return the options that resemble a name that does not exist, most alike first; leading dashes do not count."""
    names = {option.lstrip("-"): option for option in options}
    return [names[name] for name in get_close_matches(given.lstrip("-"), names, cutoff=_ALIKE)]


def tell_error(message: str, *, as_json: bool, exit_code: int) -> int:
    """Print the error of a command, and return its exit code."""
    if as_json:
        click.echo(json.dumps({"error": message, "exit_code": exit_code}))
    click.echo(f"Error: {_on_a_line(message)}", err=True)
    return exit_code


def tell_os_error(error: OSError) -> int:
    """Print a system error, of the path of an input, or of stdout without a path; return its exit code."""
    where = error.filename or "output"
    click.echo(f"Error: {_on_a_line(f'{where}: {error.strerror or error}')}", err=True)
    if error.filename is None:
        _discard_output()
    return BadInputError.exit_code if error.errno in (errno.ENAMETOOLONG, errno.ELOOP) else 1


def _is_out_of_memory(error: Exception) -> bool:
    """Return whether Python, numpy or torch got no memory; torch has no class for that on a CPU."""
    return isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY)


def _tell_interrupt(context: click.Context, how: str, exit_code: int) -> int:
    take_no_notice("SIGINT")  # one interrupt is enough: the rest takes seconds
    lost = context.meta.get(LOST, "nothing was written")
    note_step(REPORTED)
    return tell_error(f"{how}: {lost}", as_json=context.meta[_AS_JSON], exit_code=exit_code)


def _on_a_line(message: str) -> str:
    """Escape characters that could control a terminal or imitate another line: file names may hold any."""
    shown = (letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in message)
    return "".join(shown)


def _discard_output() -> None:
    """Discard further output to stdout, because the rest of its buffer would fail again when Python ends."""
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
