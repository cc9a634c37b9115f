"""The command line: arguments, progress on stderr, results on stdout, exit codes that tell. No logic of its own.

Exit codes: 0 all good, 2 usage or bad input, 3 parity, 4 size, 5 latency, 130 interrupted, 1 anything else.
"""

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edge_embed.cli.console import main as main

__all__ = ["main", "run"]

_INTERRUPTED = 130


def run() -> None:
    """The console script. What it needs is imported here, where an interrupt meanwhile is no traceback."""
    try:
        from edge_embed.cli.console import run_command
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    run_command()


def __getattr__(name: str) -> Any:
    if name == "main":
        return import_module("edge_embed.cli.console").main
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
